"""Semantic FPN with EfficientFormerV2-S2-MobiAtt, 40K iterations on ADE20K.

The paper states 80K iterations; 40K is from the code of its baseline, EfficientFormerV2. The recipe
is EfficientFormerV2's: see semfpn_efficientformerv2_s0_ade20k.py.
"""

_base_ = './semfpn_efficientformerv2_s2_ade20k.py'

model = dict(backbone=dict(attention=dict(type='mobile')))
