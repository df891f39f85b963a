"""EfficientFormerV2-S2-MobiAtt on ImageNet-1k, 300 epochs, with a teacher.

The recipe is Mobile-Attention's, section 5.1: see classifier_efficientformerv2_s0_mobile_300e.py.
"""

_base_ = './classifier_efficientformerv2_s0_mobile_300e.py'

model = dict(backbone=dict(arch='s2', drop_path_rate=0.02), head=dict(in_channels=288))
