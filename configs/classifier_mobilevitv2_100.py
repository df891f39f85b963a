"""MobileViTv2-1.0 on ImageNet-1k, 300 epochs at 256 x 256.

The recipe follows the authors' code: see classifier_mobilevitv2_200.py.
"""

_base_ = './classifier_mobilevitv2_200.py'

model = dict(backbone=dict(arch='100'), head=dict(in_channels=512))
optim_wrapper = dict(optimizer=dict(lr=7.5e-3, weight_decay=0.013))
param_scheduler = [
    dict(type='LinearLR', start_factor=1e-6 / 7.5e-3, by_epoch=False, begin=0, end=20000),
    {{_base_.cosine}},
]
