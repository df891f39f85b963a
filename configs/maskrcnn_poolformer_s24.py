"""Mask R-CNN with PoolFormer-S24, 12 epochs on COCO.

The recipe is PoolFormer's: see maskrcnn_poolformer_s12.py.
"""

_base_ = './maskrcnn_poolformer_s12.py'

model = dict(
    backbone=dict(
        arch='s24',
        init_cfg=dict(
            checkpoint='https://download.openmmlab.com/mmclassification/v0/poolformer/'
            'poolformer-s24_3rdparty_32xb128_in1k_20220414-d7055904.pth',
        ),
    ),
)
