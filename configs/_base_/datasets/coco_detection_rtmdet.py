"""COCO 2017 boxes at 640 x 640 with mosaic and mix-up: the data of RTMDet's tiny model.

For the folder see coco_detection.py. Mosaic and mix-up use images that the same worker loaded
before, not images from the disk. Workers forget them after every epoch, so its first images are
combined with few others or none.
"""

_base_ = './coco_detection.py'

gray = dict(img=(114, 114, 114))

train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnnotations', with_bbox=True),
    dict(
        type='CachedMosaic',
        img_scale=(640, 640),
        pad_val=114.0,
        max_cached_images=20,
        random_pop=False,
    ),
    # twice the side: a mosaic of four is 1280 x 1280
    dict(type='RandomResize', scale=(1280, 1280), ratio_range=(0.5, 2.0), keep_ratio=True),
    dict(type='RandomCrop', crop_size=(640, 640)),
    dict(type='YOLOXHSVRandomAug'),
    dict(type='RandomFlip', prob=0.5),
    dict(type='Pad', size=(640, 640), pad_val=gray),
    dict(
        type='CachedMixUp',
        img_scale=(640, 640),
        ratio_range=(1.0, 1.0),
        max_cached_images=10,
        random_pop=False,
        pad_val=(114, 114, 114),
        prob=0.5,
    ),
    dict(type='PackDetInputs'),
]
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='Resize', scale=(640, 640), keep_ratio=True),
    dict(type='Pad', size=(640, 640), pad_val=gray),
    dict(type='LoadAnnotations', with_bbox=True),
    dict(
        type='PackDetInputs',
        meta_keys=('img_id', 'img_path', 'ori_shape', 'img_shape', 'scale_factor'),
    ),
]

train_dataloader = dict(
    batch_size=32,
    num_workers=10,
    batch_sampler=None,  # all images are square
    dataset=dict(pipeline=train_pipeline),
)
val_dataloader = dict(batch_size=5, num_workers=10, dataset=dict(pipeline=test_pipeline))
test_dataloader = val_dataloader

# AP is computed from 100 boxes per image; mmdet's default of 1000 would only be slower
val_evaluator = dict(proposal_nums=(100, 1, 10))
test_evaluator = val_evaluator
