"""EfficientFormerV2-S0 on ImageNet-1k, 300 epochs, the baseline of Mobile-Attention (ICML 2024).

The released weights were trained for 450 epochs. The recipe is Mobile-Attention's, section 5.1: see
classifier_efficientformerv2_s0_mobile_300e.py.
"""

_base_ = './classifier_efficientformerv2_s0_mobile_300e.py'

model = dict(backbone=dict(attention=dict(type='local_global')))
