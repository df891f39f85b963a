"""SGD for 10 epochs at a constant rate, cvnets' fine-tuning; EMA weights are tested."""

train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=10, val_interval=1)
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')

optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='SGD', lr=1e-3, momentum=0.9, weight_decay=4e-5),
    paramwise_cfg=dict(norm_decay_mult=0.0, bias_decay_mult=0.0, flat_decay_mult=0.0),
    clip_grad=dict(max_norm=10),
)
param_scheduler = [dict(type='ConstantLR', factor=1.0, by_epoch=True, begin=0, end=10)]
custom_hooks = [
    dict(
        type='mmeffvit.EMAHook',
        ema_type='ExponentialMovingAverage',
        momentum=5e-5,
        update_buffers=True,
    ),
]
auto_scale_lr = dict(enable=False, base_batch_size=128)
