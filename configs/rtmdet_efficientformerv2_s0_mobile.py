"""RTMDet with EfficientFormerV2-S0-MobiAtt, 300 epochs on COCO at 640 x 640.

No weights with Mobile-Attention are released: training starts from EfficientFormerV2's, without its
position biases and talking-heads weights. The recipe is RTMDet's: see
rtmdet_efficientformerv2_s0.py.
"""

_base_ = './rtmdet_efficientformerv2_s0.py'

model = dict(backbone=dict(attention=dict(type='mobile')))
