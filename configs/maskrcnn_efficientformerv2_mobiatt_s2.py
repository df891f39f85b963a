"""Mask R-CNN with EfficientFormerV2-S2-MobiAtt, 12 epochs on COCO.

The paper follows PoolFormer's recipe (weight decay 1e-4), EfficientFormerV2's own code has 0.05, as
here; which of them made the published numbers is open. No weights with Mobile-Attention are
released: training starts from EfficientFormerV2's, without its position biases and talking heads.
"""

_base_ = './maskrcnn_efficientformerv2_s2.py'

model = dict(backbone=dict(attention='mobile'))
