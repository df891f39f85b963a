"""DeiT-S on ImageNet-1k, 300 epochs, the baseline of Mobile-Attention."""

_base_ = './classifier_deit_t.py'

model = dict(backbone=dict(arch=dict(type='s')), head=dict(in_channels=384))
