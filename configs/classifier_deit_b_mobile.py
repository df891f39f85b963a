"""DeiT-B-MobiAtt on ImageNet-1k, 300 epochs: Mobile-Attention (ICML 2024), table 1.

It is trained with a teacher, like its baseline in the table; the paper does not say so. The recipe
is Mobile-Attention's, section 5.1: see classifier_deit_b.py.
"""

_base_ = './classifier_deit_b.py'

model = dict(backbone=dict(attention=dict(type='mobile')))
