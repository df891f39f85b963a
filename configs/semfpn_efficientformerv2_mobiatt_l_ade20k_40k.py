"""Semantic FPN with EfficientFormerV2-L-MobiAtt, 40K iterations on ADE20K.

This is the length of the rows that the paper compares with; its own have 80K.
"""

_base_ = './semfpn_efficientformerv2_l_ade20k.py'

model = dict(backbone=dict(attention='mobile'))
