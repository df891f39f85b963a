"""AdamW for 50,000 iterations: MobileViTv2's 50 epochs on PASCAL VOC 2012 with COCO.

Cosine learning rate after a warm-up of 500 iterations; no weight decay of norms and biases. EMA
weights are validated. The authors train in half precision: add ``--amp``.
"""

train_cfg = dict(type='IterBasedTrainLoop', max_iters=50_000, val_interval=4000)
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')

optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=5e-4, weight_decay=0.05),
    paramwise_cfg=dict(flat_decay_mult=0.0),  # norms and biases: all parameters with one dimension
    clip_grad=dict(max_norm=10, norm_type=2),
)
param_scheduler = [
    dict(type='LinearLR', start_factor=0.1, by_epoch=False, begin=0, end=500),
    dict(type='CosineAnnealingLR', eta_min=1e-6, by_epoch=False, begin=0, end=50_000),
]
custom_hooks = [dict(type='mmeffvit.EMAHook', momentum=5e-4, update_buffers=True)]
sync_bn = 'torch'  # in distributed runs
auto_scale_lr = dict(enable=False, base_batch_size=128)  # 4 GPUs with 32 each
