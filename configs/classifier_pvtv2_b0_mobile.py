"""PVTv2-B0-MobiAtt on ImageNet-1k, 300 epochs: Mobile-Attention (ICML 2024), table 1.

The stages are those that give the printed 3.5 M parameters; the paper does not name them. The
recipe is Mobile-Attention's, section 5.1: see classifier_pvtv2_b0.py.
"""

_base_ = './classifier_pvtv2_b0.py'

model = dict(backbone=dict(attention=dict(type='mobile'), mobile_stages=(2, 3)))
