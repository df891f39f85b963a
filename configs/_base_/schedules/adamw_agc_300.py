"""AdamW for 300 epochs with a cosine schedule and adaptive gradient clipping, after DeiT.

EMA weights are tested; the authors also compute them, but release the other weights.
"""

train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=300, val_interval=10)
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')

optim_wrapper = dict(
    type='mmeffvit.AdaptiveClipOptimWrapper',
    clip_factor=0.01,
    optimizer=dict(type='AdamW', lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.025),
    # all parameters of one dimension
    paramwise_cfg=dict(norm_decay_mult=0.0, bias_decay_mult=0.0, flat_decay_mult=0.0),
)
param_scheduler = [
    dict(
        type='LinearLR',
        start_factor=5e-4,
        by_epoch=True,
        begin=0,
        end=5,
    ),
    dict(type='CosineAnnealingLR', by_epoch=True, begin=5, end=300, T_max=295, eta_min=1e-5),
]
custom_hooks = [
    dict(
        type='mmeffvit.EMAHook',
        ema_type='ExponentialMovingAverage',
        momentum=4e-5,
        update_buffers=True,
    ),
]
auto_scale_lr = dict(enable=False, base_batch_size=2048)
