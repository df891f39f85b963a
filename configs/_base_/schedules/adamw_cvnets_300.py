"""AdamW for 300 epochs with cvnets' cosine schedule; EMA weights are tested."""

train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=300, val_interval=10)
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')

optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=2e-3, betas=(0.9, 0.999), weight_decay=0.05),
    paramwise_cfg=dict(norm_decay_mult=0.0, bias_decay_mult=0.0, flat_decay_mult=0.0),
    clip_grad=dict(max_norm=10),
)
cosine = dict(
    type='CosineAnnealingLR', by_epoch=True, begin=0, end=300, T_max=300, eta_min_ratio=0.1
)
param_scheduler = [
    # from 1e-6 at the rate of width 2.0
    dict(type='LinearLR', start_factor=5e-4, by_epoch=False, begin=0, end=20000),
    cosine,
]
custom_hooks = [
    dict(
        type='mmeffvit.EMAHook',
        ema_type='ExponentialMovingAverage',
        momentum=5e-4,
        update_buffers=True,
    ),
]
auto_scale_lr = dict(enable=False, base_batch_size=1024)
