"""Mask R-CNN with EfficientFormerV2-S1, 12 epochs on COCO.

The recipe follows the authors' code: see maskrcnn_efficientformerv2_s0.py.
"""

_base_ = './maskrcnn_efficientformerv2_s0.py'

model = dict(
    backbone=dict(
        arch='s1',
        init_cfg=dict(checkpoint='hf://timm/efficientformerv2_s1.snap_dist_in1k'),
    ),
    neck=dict(in_channels=[32, 48, 120, 224]),
)
