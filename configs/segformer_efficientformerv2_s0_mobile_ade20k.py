"""SegFormer's decoder with EfficientFormerV2-S0-MobiAtt, 160K iterations on ADE20K.

Decoder and recipe are from arXiv:2105.15203: see segformer_efficientformerv2_s0_ade20k.py. No
weights with Mobile-Attention are released: training starts from EfficientFormerV2's, without its
position biases and talking heads.
"""

_base_ = './segformer_efficientformerv2_s0_ade20k.py'

model = dict(backbone=dict(attention=dict(type='mobile')))
