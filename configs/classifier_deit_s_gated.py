"""DeiT-S with a gated linear unit in place of the competition, 300 epochs on ImageNet-1k: table 2.

The paper gives neither its place nor its input: see GatedAttention. The recipe is
Mobile-Attention's, section 5.1: see classifier_deit_t.py.
"""

_base_ = './classifier_deit_s.py'

model = dict(backbone=dict(attention=dict(type='gated')))
