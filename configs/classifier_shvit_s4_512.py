"""SHViT-S4 fine-tuned on ImageNet-1k at 512 x 512, with the recipe of 384 x 384.

The recipe is that of the authors' code: see classifier_shvit_s1.py.
"""

_base_ = './classifier_shvit_s4_384.py'

train_pipeline = [
    {{_base_.load}},
    dict(type='RandomResizedCrop', scale=512, backend='pillow', interpolation='bicubic'),
    dict(type='RandomFlip', prob=0.5, direction='horizontal'),
    {{_base_.augment}},
    {{_base_.erase}},
    dict(type='PackInputs'),
]
test_pipeline = [
    {{_base_.load}},
    dict(
        type='ResizeEdge',
        scale=585,
        edge='short',
        backend='pillow',
        interpolation='bicubic',
    ),
    dict(type='CenterCrop', crop_size=512),
    dict(type='PackInputs'),
]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=test_pipeline))
test_dataloader = val_dataloader
