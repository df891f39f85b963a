"""MobileViTv2-2.0 of ImageNet-21k-P fine-tuned on ImageNet-1k at 384 x 384, 10 epochs."""

_base_ = './classifier_mobilevitv2_100_384.py'

load_from = 'hf://timm/mobilevitv2_200.cvnets_in22k_ft_in1k'
model = dict(backbone=dict(arch='200'), head=dict(in_channels=1024))
