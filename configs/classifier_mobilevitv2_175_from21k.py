"""MobileViTv2-1.75 from ImageNet-21k-P fine-tuned on ImageNet-1k, 50 epochs at 256 x 256.

It uses the recipe of width 2.0, table 10: see classifier_mobilevitv2_200_from21k.py.
"""

_base_ = './classifier_mobilevitv2_200_from21k.py'

load_from = 'work_dirs/classifier_mobilevitv2_175_imagenet21k/epoch_80.pth'
model = dict(backbone=dict(arch='175'), head=dict(in_channels=896))
