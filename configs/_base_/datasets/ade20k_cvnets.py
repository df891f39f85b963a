"""ADE20K with the augmentation of MobileViTv2's authors; for the folder see ade20k.py."""

_base_ = './ade20k.py'

bicubic = dict(keep_ratio=True, interpolation='bicubic', backend='pillow')
# only the short side is limited
resize = dict(type='mmeffvit.Resize', scale=(8192, 512), truncated=True, **bicubic)

train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnnotations', reduce_zero_label=True),
    # short side of 256 to 768 pixels, long side of at most 1024
    dict(type='RandomResize', scale=[(1024, 256), (1024, 768)], **bicubic),
    dict(type='RandomFlip', prob=0.5),
    dict(type='RandomCrop', crop_size=(512, 512), cat_max_ratio=0.75),
    dict(type='Pad', size=(512, 512), pad_val=dict(img=0, seg=255)),
    dict(type='mmeffvit.RandomGaussianBlur'),
    dict(type='mmeffvit.PhotometricDistortion'),
    dict(type='RandomRotate', prob=1.0, degree=10.0, pad_val=0, seg_pad_val=255),
    dict(type='PackSegInputs'),
]
test_pipeline = [
    dict(type='LoadImageFromFile'),
    resize,
    dict(type='mmeffvit.FloorToMultiple', divisor=8),
    dict(type='LoadAnnotations', reduce_zero_label=True),
    dict(type='PackSegInputs'),
]
tta_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(
        type='TestTimeAug',
        transforms=[
            [resize],
            [dict(type='mmeffvit.FloorToMultiple', divisor=8)],
            [dict(type='RandomFlip', prob=0.0), dict(type='RandomFlip', prob=1.0)],
            [dict(type='LoadAnnotations', reduce_zero_label=True)],
            [dict(type='PackSegInputs')],
        ],
    ),
]

train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=test_pipeline))
test_dataloader = val_dataloader
