"""Mask R-CNN with EfficientFormerV2-S2-MobiAtt, 12 epochs on COCO.

The paper follows PoolFormer's recipe (weight decay 1e-4), EfficientFormerV2's code has 0.05, as
here; it is unclear which of them was used for the published numbers. No weights with
Mobile-Attention are released: training starts from EfficientFormerV2's, without position biases and
talking heads. The recipe is EfficientFormerV2's: see maskrcnn_efficientformerv2_s0.py.
"""

_base_ = './maskrcnn_efficientformerv2_s2.py'

model = dict(backbone=dict(attention=dict(type='mobile')))
