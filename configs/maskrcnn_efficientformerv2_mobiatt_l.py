"""Mask R-CNN, EfficientFormerV2-L-MobiAtt, 12 epochs on COCO, 16 images a step.

Paper: 44.9 box AP, 40.8 mask AP. Ours: not trained yet.
"""

_base_ = './maskrcnn_efficientformerv2_l.py'

model = dict(backbone=dict(attention='mobile'))
