"""RTMDet, EfficientFormerV2-S0-MobiAtt, 300 epochs on COCO at 640 x 640, 256 images a step.

Paper: none. Ours: not trained yet. The weights of the Mobile-Attention model were not released: it
starts from EfficientFormerV2's, without the biases and the head mixing that Mobile-Attention
replaces.
"""

_base_ = './rtmdet_efficientformerv2_s0.py'

model = dict(backbone=dict(attention='mobile'))
