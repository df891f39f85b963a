"""MobileViTv2-0.5 on ImageNet-1k, 300 epochs at 256 x 256.

The recipe follows the authors' code: see classifier_mobilevitv2_200.py.
"""

_base_ = './classifier_mobilevitv2_200.py'

model = dict(backbone=dict(arch='050'), head=dict(in_channels=256))
optim_wrapper = dict(optimizer=dict(lr=9e-3, weight_decay=0.004))
param_scheduler = [
    dict(type='LinearLR', start_factor=1e-6 / 9e-3, by_epoch=False, begin=0, end=20000),
    {{_base_.cosine}},
]
