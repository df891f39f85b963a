"""Mask R-CNN with SwiftFormer-L3, 12 epochs on COCO.

The recipe follows arXiv:2303.15446, section 4.1: see maskrcnn_swiftformer_xs.py.
"""

_base_ = './maskrcnn_swiftformer_xs.py'

model = dict(
    backbone=dict(
        arch='l3',
        init_cfg=dict(checkpoint='hf://timm/swiftformer_l3.dist_in1k'),
    ),
    neck=dict(in_channels=[64, 128, 320, 512]),
)
