"""DeiT-S with a gated linear unit in place of the competition, 300 epochs on ImageNet-1k: table 2.

The paper gives neither its place nor its input: see GatedAttention.
"""

_base_ = './classifier_deit_s.py'

model = dict(backbone=dict(attention='gated'))
