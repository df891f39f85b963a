"""SegFormer's decoder, EfficientFormerV2-S0 with Mobile-Attention, 160K iterations on ADE20K.

16 images a step. Paper: none. Ours: not trained yet. Decoder and recipe are those of
arXiv:2105.15203, the backbone is not. No ImageNet weights with Mobile-Attention are released:
training starts from EfficientFormerV2's, without its tables and head mixing.
"""

_base_ = './segformer_efficientformerv2_s0_ade20k.py'

model = dict(backbone=dict(attention='mobile'))
