"""SHViT-S4 on ImageNet-1k at 256 x 256, 300 epochs.

Test images are resized to 256 / 224 of the crop, rounded down. This and the recipe follow the
authors' code: see classifier_shvit_s1.py.
"""

_base_ = './classifier_shvit_s1.py'

model = dict(backbone=dict(arch='s4'), head=dict(in_channels=448))
optim_wrapper = dict(optimizer=dict(weight_decay=0.03))
train_pipeline = [
    {{_base_.load}},
    dict(type='RandomResizedCrop', scale=256, backend='pillow', interpolation='bicubic'),
    dict(type='RandomFlip', prob=0.5, direction='horizontal'),
    {{_base_.augment}},
    {{_base_.erase}},
    dict(type='PackInputs'),
]
test_pipeline = [
    {{_base_.load}},
    dict(
        type='ResizeEdge',
        scale=292,
        edge='short',
        backend='pillow',
        interpolation='bicubic',
    ),
    dict(type='CenterCrop', crop_size=256),
    dict(type='PackInputs'),
]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=test_pipeline))
test_dataloader = val_dataloader
