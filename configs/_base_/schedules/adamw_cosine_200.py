"""AdamW for 200 epochs with a cosine schedule; EMA weights are tested."""

train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=200, val_interval=10)
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')

optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=9e-4, betas=(0.9, 0.999), weight_decay=0.05),
    clip_grad=dict(max_norm=10),
)
param_scheduler = [
    dict(type='LinearLR', start_factor=0.1, by_epoch=False, begin=0, end=500),
    dict(type='CosineAnnealingLR', by_epoch=True, begin=0, end=200, T_max=200, eta_min=1e-6),
]
custom_hooks = [
    dict(
        type='mmeffvit.EMAHook',
        ema_type='ExponentialMovingAverage',
        momentum=5e-4,
        update_buffers=True,
    ),
]
sync_bn = 'torch'  # in distributed runs
auto_scale_lr = dict(enable=False, base_batch_size=128)  # 4 GPUs with 32 each
