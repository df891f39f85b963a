"""ImageNet-1k at 224 x 224 with DeiT's augmentation and repeated sampling.

The folder, DATA_ROOT or data/imagenet, has `train` and `val` with a folder per class. Test images
are read as the official codes do, by Pillow: the short side resized to 256, the center cropped.
ImageNetV2 is tested with the options that docs/imagenet.md gives.
"""

data_root = '{{$DATA_ROOT:data/imagenet}}/'

load = dict(
    type='LoadImageFromFile',
    imdecode_backend='pillow',
    color_type='color_ignore_orientation',
)
augment = dict(
    type='RandAugment',  # timm's rand-m9-mstd0.5-inc1
    policies='timm_increasing',
    num_policies=2,
    total_level=10,
    magnitude_level=9,
    magnitude_std=0.5,
    hparams=dict(pad_val=[104, 116, 124], interpolation='bicubic'),
)
erase = dict(
    type='RandomErasing',
    erase_prob=0.25,
    mode='rand',
    min_area_ratio=0.02,
    max_area_ratio=1 / 3,
    fill_color=[103.53, 116.28, 123.675],
    fill_std=[57.375, 57.12, 58.395],
)
constant_erase = dict(  # torchvision's, for cvnets
    type='RandomErasing',
    erase_prob=0.25,
    mode='const',
    min_area_ratio=0.02,
    max_area_ratio=0.33,
    aspect_range=(0.3, 3.3),
    fill_color=(0, 0, 0),
)
train_pipeline = [
    load,
    dict(type='RandomResizedCrop', scale=224, backend='pillow', interpolation='bicubic'),
    dict(type='RandomFlip', prob=0.5, direction='horizontal'),
    augment,
    erase,
    dict(type='PackInputs'),
]
test_pipeline = [
    load,
    dict(
        type='ResizeEdge',
        scale=256,
        edge='short',
        backend='pillow',
        interpolation='bicubic',
    ),
    dict(type='CenterCrop', crop_size=224),
    dict(type='PackInputs'),
]

train_dataloader = dict(
    batch_size=256,
    num_workers=8,
    sampler=dict(type='RepeatAugSampler', shuffle=True),
    collate_fn=dict(type='default_collate'),
    dataset=dict(
        type='ImageNet',
        data_root=data_root,
        data_prefix=dict(img_path='train'),
        pipeline=train_pipeline,
    ),
)
val_dataloader = dict(
    batch_size=256,
    num_workers=8,
    sampler=dict(type='DefaultSampler', shuffle=False),
    collate_fn=dict(type='default_collate'),
    dataset=dict(
        type='ImageNet',
        data_root=data_root,
        data_prefix=dict(img_path='val'),
        pipeline=test_pipeline,
    ),
)
test_dataloader = val_dataloader
val_evaluator = dict(type='Accuracy', topk=(1, 5))
test_evaluator = val_evaluator
