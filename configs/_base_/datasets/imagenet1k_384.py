"""ImageNet-1k at 384 x 384, cropped and flipped, as cvnets fine-tunes; see imagenet1k.py."""

_base_ = './imagenet1k.py'

train_pipeline = [
    {{_base_.load}},
    dict(type='RandomResizedCrop', scale=384, backend='pillow', interpolation='bicubic'),
    dict(type='RandomFlip', prob=0.5, direction='horizontal'),
    dict(type='PackInputs'),
]
test_pipeline = [
    {{_base_.load}},
    dict(
        type='ResizeEdge',
        scale=384,
        edge='short',
        backend='pillow',
        interpolation='bicubic',
    ),
    dict(type='CenterCrop', crop_size=384),
    dict(type='PackInputs'),
]

train_dataloader = dict(
    batch_size=64,
    sampler=dict(type='DefaultSampler'),
    dataset=dict(pipeline=train_pipeline),
)
val_dataloader = dict(batch_size=64, dataset=dict(pipeline=test_pipeline))
test_dataloader = val_dataloader
