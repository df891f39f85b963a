"""AdamW for 160,000 iterations with warm-up and linear learning rate decay: SegFormer's schedule.

The head has ten times the learning rate; norms of the backbone have no weight decay.
"""

train_cfg = dict(type='IterBasedTrainLoop', max_iters=160_000, val_interval=16_000)
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')

optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=6e-5, betas=(0.9, 0.999), weight_decay=0.01),
    paramwise_cfg=dict(
        norm_decay_mult=0.0,
        custom_keys=dict(decode_head=dict(lr_mult=10.0)),  # norms with weight decay
    ),
)
param_scheduler = [
    dict(type='LinearLR', start_factor=1e-6, by_epoch=False, begin=0, end=1500),
    dict(type='PolyLR', power=1.0, eta_min=0.0, by_epoch=False, begin=1500, end=160_000),
]
sync_bn = 'torch'  # in distributed runs
auto_scale_lr = dict(enable=False, base_batch_size=16)  # 4 GPUs with 4 each
