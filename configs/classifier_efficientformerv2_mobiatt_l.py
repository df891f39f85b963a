"""EfficientFormerV2-L-MobiAtt on ImageNet-1k, with EfficientFormerV2's recipe.

See S0 for what is not given.
"""

_base_ = './classifier_efficientformerv2_l.py'

model = dict(backbone=dict(attention='mobile'))
