"""Semantic FPN with EfficientFormerV2-L-MobiAtt, 80K iterations on ADE20K.

The recipe follows Mobile-Attention (ICML 2024), section 5.2; it does not specify the weight decay
and the final learning rate, which are EfficientFormerV2's here. No weights with Mobile-Attention
are released: training starts from EfficientFormerV2's, without position biases and talking heads.
The rest is EfficientFormerV2's: see semfpn_efficientformerv2_s0_ade20k.py.
"""

_base_ = './semfpn_efficientformerv2_l_ade20k.py'

model = dict(backbone=dict(attention=dict(type='mobile')))
train_cfg = dict(max_iters=80_000)
param_scheduler = [
    dict(type='PolyLR', power=0.9, eta_min=1e-6, by_epoch=False, begin=0, end=80_000),
]
