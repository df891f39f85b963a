"""Mask R-CNN with EfficientFormerV2-L-MobiAtt, 12 epochs on COCO."""

_base_ = './maskrcnn_efficientformerv2_l.py'

model = dict(backbone=dict(attention='mobile'))
