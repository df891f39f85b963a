"""DeiT-S with Hydra attention, 300 epochs on ImageNet-1k: table 2.

The recipe is Mobile-Attention's, section 5.1: see classifier_deit_t.py.
"""

_base_ = './classifier_deit_s.py'

model = dict(backbone=dict(attention=dict(type='hydra')))
