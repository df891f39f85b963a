"""Mask R-CNN, EfficientFormerV2-S2-MobiAtt, 12 epochs on COCO, 16 images a step.

Paper: 43.7 box AP, 39.8 mask AP. Ours: not trained yet. The weights of the
Mobile-Attention model were not released: it starts from EfficientFormerV2's, without the biases
and the head mixing that Mobile-Attention replaces.
"""

_base_ = './maskrcnn_efficientformerv2_s2.py'

model = dict(backbone=dict(attention='mobile'))
