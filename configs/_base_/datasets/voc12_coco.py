"""PASCAL VOC 2012 with COCO 2017, 129K training and 1,449 validation images, 21 classes.

The training images are 1,464 of VOC, 9,118 of its augmented set, and all 118,287 of COCO, labeled
with the classes of VOC; arXiv:2206.02680 counts 128K. ``tools/dataset_converters/voc_coco.py``
creates its folder from theirs. It is the environment variable ``DATA_ROOT`` if it is set, else
``data/voc12_coco/``. Augmentation and testing follow ade20k_cvnets.py.
"""

data_root = '{{$DATA_ROOT:data/voc12_coco}}/'
bicubic = dict(keep_ratio=True, interpolation='bicubic', backend='pillow')
# only the short side is limited
resize = dict(type='mmeffvit.Resize', scale=(8192, 512), truncated=True, **bicubic)

train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnnotations'),
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
    dict(type='mmeffvit.FloorToMultiple', divisor=16),
    dict(type='LoadAnnotations'),
    dict(type='PackSegInputs'),
]
tta_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(
        type='TestTimeAug',
        transforms=[
            [resize],
            [dict(type='mmeffvit.FloorToMultiple', divisor=16)],
            [dict(type='RandomFlip', prob=0.0), dict(type='RandomFlip', prob=1.0)],
            [dict(type='LoadAnnotations')],
            [dict(type='PackSegInputs')],
        ],
    ),
]

voc = dict(type='PascalVOCDataset', data_root=data_root)
train_dataloader = dict(
    batch_size=32,
    num_workers=8,
    sampler=dict(type='InfiniteSampler', shuffle=True),
    dataset=dict(
        type='ConcatDataset',
        datasets=[
            dict(
                **voc,
                data_prefix=dict(img_path='voc/JPEGImages', seg_map_path='voc/SegmentationClass'),
                ann_file='voc/ImageSets/Segmentation/train.txt',
                pipeline=train_pipeline,
            ),
            dict(
                **voc,
                data_prefix=dict(
                    img_path='voc/JPEGImages', seg_map_path='voc/SegmentationClassAug'
                ),
                ann_file='voc/ImageSets/Segmentation/aug.txt',
                pipeline=train_pipeline,
            ),
            dict(
                **voc,
                data_prefix=dict(img_path='coco/images', seg_map_path='coco/labels'),
                ann_file='coco/train.txt',
                pipeline=train_pipeline,
            ),
        ],
    ),
)
val_dataloader = dict(
    batch_size=1,
    num_workers=4,
    sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(
        **voc,
        data_prefix=dict(img_path='voc/JPEGImages', seg_map_path='voc/SegmentationClass'),
        ann_file='voc/ImageSets/Segmentation/val.txt',
        pipeline=test_pipeline,
    ),
)
test_dataloader = val_dataloader

val_evaluator = dict(type='IoUMetric', iou_metrics=['mIoU'])
test_evaluator = val_evaluator
