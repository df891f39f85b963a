"""Mask R-CNN, SwiftFormer-L1, 12 epochs on COCO, 32 images a step.

Paper: 41.2 box AP, 38.1 mask AP. Ours: not trained.
"""

_base_ = './maskrcnn_swiftformer_xs.py'

model = dict(
    backbone=dict(
        arch='l1',
        init_cfg=dict(checkpoint='hf://timm/swiftformer_l1.dist_in1k'),
    ),
    neck=dict(in_channels=[48, 96, 192, 384]),
)
