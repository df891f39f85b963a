"""Semantic FPN with EVA in EfficientFormerV2-S2, 80K iterations on ADE20K.

A competitor of Mobile-Attention (ICML 2024), table 5, with the setup of its section 5.2. The number
of heads is EfficientFormerV2's; the paper uses the default of each mechanism's own paper. The
recipe is Mobile-Attention's: see semfpn_efficientformerv2_s2_mobile_ade20k_80k.py.
"""

_base_ = './semfpn_efficientformerv2_s2_mobile_ade20k_80k.py'

model = dict(backbone=dict(attention=dict(type='eva')))
