"""PVTv2-B2-MobiAtt on ImageNet-1k, 300 epochs: Mobile-Attention (ICML 2024), table 1.

The stages are those that give the printed 21.1 M parameters; the paper does not name them. The
recipe is Mobile-Attention's, section 5.1: see classifier_pvtv2_b0.py.
"""

_base_ = './classifier_pvtv2_b2.py'

model = dict(backbone=dict(attention=dict(type='mobile'), mobile_stages=(0, 1, 2, 3)))
