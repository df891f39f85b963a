"""SSDLite with EfficientFormerV2-S0-MobiAtt, 200 epochs on COCO at 320 x 320.

No weights with Mobile-Attention are released: training starts from EfficientFormerV2's, without
position biases and talking heads. The recipe is MobileViTv2's: see ssdlite_efficientformerv2_s0.py.
"""

_base_ = './ssdlite_efficientformerv2_s0.py'

model = dict(backbone=dict(attention=dict(type='mobile')))
