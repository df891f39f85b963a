"""MobileViTv2-1.75 on ImageNet-1k, 300 epochs at 256 x 256.

The recipe follows the authors' code: see classifier_mobilevitv2_200.py.
"""

_base_ = './classifier_mobilevitv2_200.py'

model = dict(backbone=dict(arch='175'), head=dict(in_channels=896))
optim_wrapper = dict(optimizer=dict(lr=2.6e-3, weight_decay=0.039))
param_scheduler = [
    dict(type='LinearLR', start_factor=1e-6 / 2.6e-3, by_epoch=False, begin=0, end=20000),
    {{_base_.cosine}},
]
