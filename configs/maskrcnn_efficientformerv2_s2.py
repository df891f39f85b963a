"""Mask R-CNN with EfficientFormerV2-S2, 12 epochs on COCO.

The recipe follows the authors' code: see maskrcnn_efficientformerv2_s0.py.
"""

_base_ = './maskrcnn_efficientformerv2_s0.py'

model = dict(
    backbone=dict(
        arch='s2',
        drop_path_rate=0.02,
        init_cfg=dict(checkpoint='hf://timm/efficientformerv2_s2.snap_dist_in1k'),
    ),
    neck=dict(in_channels=[32, 64, 144, 288]),
)
