"""PVTv2-B3 on ImageNet-1k, 300 epochs, a baseline of Mobile-Attention.

The recipe is Mobile-Attention's, section 5.1: see classifier_pvtv2_b0.py.
"""

_base_ = './classifier_pvtv2_b0.py'

model = dict(backbone=dict(arch='b3', drop_path_rate=0.3), head=dict(in_channels=512))
