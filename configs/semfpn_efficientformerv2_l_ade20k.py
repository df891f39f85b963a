"""Semantic FPN with EfficientFormerV2-L, 40K iterations on ADE20K.

The recipe follows the authors' code: see semfpn_efficientformerv2_s0_ade20k.py.
"""

_base_ = './semfpn_efficientformerv2_s0_ade20k.py'

model = dict(
    backbone=dict(
        arch='l',
        drop_path_rate=0.1,
        init_cfg=dict(checkpoint='hf://timm/efficientformerv2_l.snap_dist_in1k'),
    ),
    neck=dict(in_channels=[40, 80, 192, 384]),
)
