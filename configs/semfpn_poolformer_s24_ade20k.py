"""Semantic FPN with PoolFormer-S24, 40K iterations on ADE20K.

The recipe is PoolFormer's: see semfpn_poolformer_s12_ade20k.py.
"""

_base_ = './semfpn_poolformer_s12_ade20k.py'

model = dict(
    backbone=dict(
        arch='s24',
        init_cfg=dict(
            checkpoint='https://download.openmmlab.com/mmclassification/v0/poolformer/'
            'poolformer-s24_3rdparty_32xb128_in1k_20220414-d7055904.pth',
        ),
    ),
)
