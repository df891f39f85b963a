"""AdamW for 300 epochs, half of them with a flat, half with a cosine learning rate: RTMDet's.

The last 20 epochs are without mosaic and mix-up. EMA weights are tested. The learning rate is half
of RTMDet's own, 4e-3 at batch size 256: per image it equals mmdet's for RTMDet with a Swin
transformer.
"""

train_cfg = dict(
    type='EpochBasedTrainLoop',
    max_epochs=300,
    val_interval=10,
    dynamic_intervals=[(280, 1)],
)
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')

optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=2e-3, weight_decay=0.05),
    paramwise_cfg=dict(
        norm_decay_mult=0.0,
        bias_decay_mult=0.0,
        bypass_duplicate=True,  # the convolutions of the head are shared by its levels
    ),
)
param_scheduler = [
    dict(type='LinearLR', start_factor=1e-5, by_epoch=False, begin=0, end=1000),
    dict(
        type='CosineAnnealingLR',
        eta_min=1e-4,
        begin=150,
        end=300,
        T_max=150,
        by_epoch=True,
        convert_to_iter_based=True,
    ),
]

single_images = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnnotations', with_bbox=True),
    dict(type='RandomResize', scale=(640, 640), ratio_range=(0.5, 2.0), keep_ratio=True),
    dict(type='RandomCrop', crop_size=(640, 640)),
    dict(type='YOLOXHSVRandomAug'),
    dict(type='RandomFlip', prob=0.5),
    dict(type='Pad', size=(640, 640), pad_val=dict(img=(114, 114, 114))),
    dict(type='PackDetInputs'),
]
custom_hooks = [
    dict(
        type='mmeffvit.EMAHook',
        ema_type='ExpMomentumEMA',
        momentum=2e-4,
        update_buffers=True,
        priority=49,  # before the checkpoint hook
    ),
    dict(type='PipelineSwitchHook', switch_epoch=280, switch_pipeline=single_images),
]
sync_bn = 'torch'  # in distributed runs
auto_scale_lr = dict(enable=False, base_batch_size=256)  # 8 GPUs with 32 each
