"""DeiT-B-MobiAtt on ImageNet-1k, 300 epochs: Mobile-Attention (ICML 2024), table 1.

It is trained with a teacher, like its baseline in the table; the paper does not say so.
"""

_base_ = './classifier_deit_b.py'

model = dict(backbone=dict(attention='mobile'))
