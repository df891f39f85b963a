"""Mask R-CNN with EfficientFormerV2-L, 12 epochs on COCO.

The recipe follows the authors' code: see maskrcnn_efficientformerv2_s0.py.
"""

_base_ = './maskrcnn_efficientformerv2_s0.py'

model = dict(
    backbone=dict(
        arch='l',
        drop_path_rate=0.1,
        init_cfg=dict(checkpoint='hf://timm/efficientformerv2_l.snap_dist_in1k'),
    ),
    neck=dict(in_channels=[40, 80, 192, 384]),
)
