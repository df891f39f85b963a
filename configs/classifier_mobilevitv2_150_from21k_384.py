"""MobileViTv2-1.5 from ImageNet-21k-P fine-tuned on ImageNet-1k at 384 x 384, 10 epochs.

It uses the recipe of width 2.0, table 10: see classifier_mobilevitv2_200_from21k_384.py.
"""

_base_ = './classifier_mobilevitv2_200_from21k_384.py'

load_from = 'hf://timm/mobilevitv2_150.cvnets_in22k_ft_in1k'
model = dict(backbone=dict(arch='150'), head=dict(in_channels=768))
