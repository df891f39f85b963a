"""Mask R-CNN with SwiftFormer-S, 12 epochs on COCO.

The recipe follows arXiv:2303.15446, section 4.1: see maskrcnn_swiftformer_xs.py.
"""

_base_ = './maskrcnn_swiftformer_xs.py'

model = dict(
    backbone=dict(
        arch='s',
        init_cfg=dict(checkpoint='hf://timm/swiftformer_s.dist_in1k'),
    ),
    neck=dict(in_channels=[48, 64, 168, 224]),
)
