"""MobileViTv2-1.25 fine-tuned on ImageNet-1k at 384 x 384, 10 epochs: table 7 of arXiv:2206.02680.

The recipe follows the authors' code: see classifier_mobilevitv2_100_384.py.
"""

_base_ = './classifier_mobilevitv2_100_384.py'

load_from = 'hf://timm/mobilevitv2_125.cvnets_in1k'
model = dict(backbone=dict(arch='125'), head=dict(in_channels=640))
