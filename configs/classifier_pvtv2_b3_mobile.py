"""PVTv2-B3-MobiAtt on ImageNet-1k, 300 epochs: Mobile-Attention (ICML 2024), table 1.

All stages have Mobile-Attention, like B2's. The paper does not name them, and no choice gives the
printed 39.0 M parameters. The recipe is Mobile-Attention's, section 5.1: see
classifier_pvtv2_b0.py.
"""

_base_ = './classifier_pvtv2_b3.py'

model = dict(backbone=dict(attention=dict(type='mobile'), mobile_stages=(0, 1, 2, 3)))
