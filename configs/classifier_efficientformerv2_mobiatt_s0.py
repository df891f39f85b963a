"""EfficientFormerV2-S0-MobiAtt on ImageNet-1k, with EfficientFormerV2's recipe.

The paper (section 5.1) trains as EfficientFormerV2 does; the number of epochs and the batch size of
its runs are not given here: they are those of EfficientFormerV2's released weights.
"""

_base_ = './classifier_efficientformerv2_s0.py'

model = dict(backbone=dict(attention='mobile'))
