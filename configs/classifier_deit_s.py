"""DeiT-S on ImageNet-1k, 300 epochs, the baseline of Mobile-Attention.

The recipe is Mobile-Attention's, section 5.1: see classifier_deit_t.py.
"""

_base_ = './classifier_deit_t.py'

model = dict(backbone=dict(arch=dict(type='s')), head=dict(in_channels=384))
