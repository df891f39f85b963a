"""Semantic FPN with EfficientFormerV2-S1, 40K iterations on ADE20K.

The recipe follows the authors' code: see semfpn_efficientformerv2_s0_ade20k.py.
"""

_base_ = './semfpn_efficientformerv2_s0_ade20k.py'

model = dict(
    backbone=dict(
        arch='s1',
        init_cfg=dict(checkpoint='hf://timm/efficientformerv2_s1.snap_dist_in1k'),
    ),
    neck=dict(in_channels=[32, 48, 120, 224]),
)
