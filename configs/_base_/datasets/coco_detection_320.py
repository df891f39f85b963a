"""COCO 2017 boxes at 320 x 320 with SSD's augmentation; for the folder see coco_detection.py.

Images are stretched to a square, so they are not grouped by their aspect ratio.
"""

_base_ = './coco_detection.py'

resize = dict(
    type='Resize',
    scale=(320, 320),
    keep_ratio=False,
    interpolation='bicubic',
    backend='pillow',  # antialiased, like the official code
)
train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnnotations', with_bbox=True),
    dict(type='mmeffvit.MaxIoURandomCrop'),
    dict(type='mmeffvit.PhotometricDistortion'),
    dict(type='RandomFlip', prob=0.5),
    resize,
    dict(type='PackDetInputs'),
]
test_pipeline = [
    dict(type='LoadImageFromFile'),
    resize,
    dict(type='LoadAnnotations', with_bbox=True),
    dict(
        type='PackDetInputs',
        meta_keys=('img_id', 'img_path', 'ori_shape', 'img_shape', 'scale_factor'),
    ),
]

train_dataloader = dict(
    batch_size=32,
    num_workers=8,
    batch_sampler=None,
    dataset=dict(pipeline=train_pipeline),
)
val_dataloader = dict(batch_size=32, num_workers=8, dataset=dict(pipeline=test_pipeline))
test_dataloader = val_dataloader
