"""SGD for 151,680 iterations: MobileViTv2's 120 epochs of 1264 iterations on ADE20K.

Cosine learning rate without warm-up; no weight decay of norms and biases. EMA weights are
validated. The authors train in half precision: add ``--amp``.
"""

train_cfg = dict(type='IterBasedTrainLoop', max_iters=151_680, val_interval=4000)
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')

optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='SGD', lr=0.02, momentum=0.9, weight_decay=1e-4),
    paramwise_cfg=dict(flat_decay_mult=0.0),  # norms and biases: all parameters with one dimension
    clip_grad=dict(max_norm=10, norm_type=2),
)
param_scheduler = [
    dict(type='CosineAnnealingLR', eta_min=2e-4, by_epoch=False, begin=0, end=151_680),
]
custom_hooks = [dict(type='mmeffvit.EMAHook', momentum=5e-4, update_buffers=True)]
sync_bn = 'torch'  # in distributed runs
auto_scale_lr = dict(enable=False, base_batch_size=16)  # 4 GPUs with 4 each
