"""Pipelines of coco_detection_320.py at 416 x 416, for children of configs at 320 x 320."""

resize_416 = dict(
    type='Resize',
    scale=(416, 416),
    keep_ratio=False,
    interpolation='bicubic',
    backend='pillow',
)
train_pipeline_416 = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnnotations', with_bbox=True),
    dict(type='mmeffvit.MaxIoURandomCrop'),
    dict(type='mmeffvit.PhotometricDistortion'),
    dict(type='RandomFlip', prob=0.5),
    resize_416,
    dict(type='PackDetInputs'),
]
test_pipeline_416 = [
    dict(type='LoadImageFromFile'),
    resize_416,
    dict(type='LoadAnnotations', with_bbox=True),
    dict(
        type='PackDetInputs',
        meta_keys=('img_id', 'img_path', 'ori_shape', 'img_shape', 'scale_factor'),
    ),
]
