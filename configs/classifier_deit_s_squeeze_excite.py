"""DeiT-S with squeeze and excitation in place of the competition: table 2 of Mobile-Attention.

The paper gives neither its place nor its sizes: see SqueezeExciteAttention. The recipe is
Mobile-Attention's, section 5.1: see classifier_deit_t.py.
"""

_base_ = './classifier_deit_s.py'

model = dict(backbone=dict(attention=dict(type='squeeze_excite')))
