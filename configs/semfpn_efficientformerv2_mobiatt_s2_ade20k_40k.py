"""Semantic FPN with EfficientFormerV2-S2-MobiAtt, 40K iterations on ADE20K.

The baselines in the paper are trained for 40K iterations, its own models for 80K.
"""

_base_ = './semfpn_efficientformerv2_s2_ade20k.py'

model = dict(backbone=dict(attention='mobile'))
