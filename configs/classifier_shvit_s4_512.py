"""SHViT-S4 fine-tuned on ImageNet-1k at 512 x 512, 30 epochs, from the weights at 256 x 256.

It uses the recipe of 384 x 384: see classifier_shvit_s4_384.py. The paper does not say where it
starts. From the weights at 384 x 384, in steps as LeViT's authors do, is another reading.
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
