"""SwiftFormer-XS on ImageNet-1k, 300 epochs, with a teacher.

The authors' code jitters the colors of this variant in place of RandAugment. The rest of the recipe
follows S: see classifier_swiftformer_s.py.
"""

_base_ = './classifier_swiftformer_s.py'

model = dict(backbone=dict(arch='xs'), head=dict(in_channels=220))
train_pipeline = [
    {{_base_.load}},
    dict(type='RandomResizedCrop', scale=224, backend='pillow', interpolation='bicubic'),
    dict(type='RandomFlip', prob=0.5, direction='horizontal'),
    dict(type='ColorJitter', brightness=0.4, contrast=0.4, saturation=0.4),
    {{_base_.erase}},
    dict(type='PackInputs'),
]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
