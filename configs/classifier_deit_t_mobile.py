"""DeiT-T-MobiAtt on ImageNet-1k, 300 epochs: Mobile-Attention (ICML 2024), table 1.

The recipe is Mobile-Attention's, section 5.1: see classifier_deit_t.py.
"""

_base_ = './classifier_deit_t.py'

model = dict(backbone=dict(attention=dict(type='mobile')))
