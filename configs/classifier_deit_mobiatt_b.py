"""DeiT-B-MobiAtt on ImageNet-1k, 300 epochs: Mobile-Attention (ICML 2024), table 1.

It has a teacher, as the baseline that the table compares it with; the paper does not say so.
"""

_base_ = './classifier_deit_b.py'

model = dict(backbone=dict(attention='mobile'))
