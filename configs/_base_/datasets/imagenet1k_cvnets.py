"""ImageNet-1k at 256 x 256 with the augmentation of cvnets; for the folder see imagenet1k.py.

RandAugment and random erasing are torchvision's, with its numbers, which cvnets inherits.
"""

_base_ = './imagenet1k.py'

train_pipeline = [
    {{_base_.load}},
    dict(type='RandomResizedCrop', scale=256, backend='pillow', interpolation='bicubic'),
    dict(type='RandomFlip', prob=0.5, direction='horizontal'),
    dict(type='NumpyToPIL', to_rgb=True),
    dict(type='torchvision/RandAugment'),
    dict(type='PILToNumpy', to_bgr=True),
    {{_base_.constant_erase}},
    dict(type='PackInputs'),
]
test_pipeline = [
    {{_base_.load}},
    dict(
        type='ResizeEdge',
        scale=288,
        edge='short',
        backend='pillow',
        interpolation='bicubic',
    ),
    dict(type='CenterCrop', crop_size=256),
    dict(type='PackInputs'),
]

train_dataloader = dict(
    batch_size=128,
    sampler=dict(type='DefaultSampler'),
    dataset=dict(pipeline=train_pipeline),
)
val_dataloader = dict(batch_size=128, dataset=dict(pipeline=test_pipeline))
test_dataloader = val_dataloader
