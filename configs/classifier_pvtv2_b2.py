"""PVTv2-B2 on ImageNet-1k, 300 epochs, a baseline of Mobile-Attention."""

_base_ = './classifier_pvtv2_b0.py'

model = dict(backbone=dict(arch='b2'), head=dict(in_channels=512))
