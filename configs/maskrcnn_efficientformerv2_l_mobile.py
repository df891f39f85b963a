"""Mask R-CNN with EfficientFormerV2-L-MobiAtt, 12 epochs on COCO.

The recipe is EfficientFormerV2's: see maskrcnn_efficientformerv2_s0.py.
"""

_base_ = './maskrcnn_efficientformerv2_l.py'

model = dict(backbone=dict(attention=dict(type='mobile')))
