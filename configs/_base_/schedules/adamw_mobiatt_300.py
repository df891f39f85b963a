"""AdamW for 300 epochs with a cosine schedule: Mobile-Attention (ICML 2024), section 5.1.

The rate is 0.001 at batch size 2048. The paper does not give the weight decay, the warm-up and the
final rate, which are DeiT's (arXiv:2012.12877) here.
"""

train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=300, val_interval=10)
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')

optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.05),
    paramwise_cfg=dict(
        norm_decay_mult=0.0,
        bias_decay_mult=0.0,
        flat_decay_mult=0.0,
        custom_keys={
            '.positions': dict(decay_mult=0.0),
            '.class_token': dict(decay_mult=0.0),
            '.distillation_token': dict(decay_mult=0.0),
        },
    ),
)
param_scheduler = [
    dict(type='LinearLR', start_factor=1e-3, by_epoch=True, begin=0, end=5),
    dict(type='CosineAnnealingLR', by_epoch=True, begin=5, end=300, T_max=295, eta_min=1e-5),
]
auto_scale_lr = dict(enable=False, base_batch_size=2048)
