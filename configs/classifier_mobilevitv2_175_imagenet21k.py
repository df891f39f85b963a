"""MobileViTv2-1.75 pre-trained on ImageNet-21k-P, 80 epochs: table 8 of arXiv:2206.02680.

It uses the recipe of width 2.0: see classifier_mobilevitv2_200_imagenet21k.py.
"""

_base_ = './classifier_mobilevitv2_200_imagenet21k.py'

load_from = 'hf://timm/mobilevitv2_175.cvnets_in1k'  # but the classifier
model = dict(backbone=dict(arch='175'), head=dict(in_channels=896))
