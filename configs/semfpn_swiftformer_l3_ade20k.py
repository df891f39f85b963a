"""Semantic FPN with SwiftFormer-L3, 40K iterations on ADE20K.

The recipe follows arXiv:2303.15446, section 4.1: see semfpn_swiftformer_l1_ade20k.py.
"""

_base_ = './semfpn_swiftformer_l1_ade20k.py'

model = dict(
    backbone=dict(
        arch='l3',
        init_cfg=dict(checkpoint='hf://timm/swiftformer_l3.dist_in1k'),
    ),
    neck=dict(in_channels=[64, 128, 320, 512]),
)
