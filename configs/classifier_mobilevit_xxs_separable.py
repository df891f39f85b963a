"""MobileViT-XXS with separable self-attention in place of its own, 300 epochs on ImageNet-1k.

The recipe is MobileViTv2's: see classifier_mobilevit_xs_separable.py.
"""

_base_ = './classifier_mobilevit_xs_separable.py'

model = dict(backbone=dict(arch='xxs'), head=dict(in_channels=320))
