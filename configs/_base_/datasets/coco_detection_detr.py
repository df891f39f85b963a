"""COCO 2017 boxes with the augmentation of DETR; for the folder see coco_detection.py.

Images are resized to 480 to 800 pixels on the shorter side, half of them after a crop of 384 to 600
pixels. Images without boxes are used in training too.
"""

_base_ = './coco_detection.py'

resize = dict(
    type='RandomChoiceResize',
    scales=[(short, 1333) for short in range(480, 801, 32)],
    keep_ratio=True,
)
resize_before_crop = dict(
    type='RandomChoiceResize',
    scales=[(short, 4200) for short in (400, 500, 600)],  # no limit in practice
    keep_ratio=True,
)
crop = dict(
    type='RandomCrop',
    crop_type='absolute_range',
    crop_size=(384, 600),
    allow_negative_crop=True,
)
train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnnotations', with_bbox=True),
    dict(type='RandomFlip', prob=0.5),
    dict(type='RandomChoice', transforms=[[resize], [resize_before_crop, crop, resize]]),
    dict(type='PackDetInputs'),
]

train_dataloader = dict(
    dataset=dict(filter_cfg=dict(filter_empty_gt=False), pipeline=train_pipeline)
)
