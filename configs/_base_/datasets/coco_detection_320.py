"""COCO 2017 boxes at 320 x 320 with SSD's augmentation; where the images lie: coco_detection.py.

Images are stretched to the square, so they need not be grouped by their shape.
"""

_base_ = './coco_detection.py'

resize = dict(
    type='Resize',
    scale=(320, 320),
    keep_ratio=False,
    interpolation='bicubic',
    backend='pillow',  # it smooths before it shrinks, as the official code does
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
