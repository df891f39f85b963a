"""DeiT-S with attention among heads, equation 3, 300 epochs on ImageNet-1k: table 2.

The paper does not say how tokens are mixed; linear attention on the results is one reading. The
recipe is Mobile-Attention's, section 5.1: see classifier_deit_t.py.
"""

_base_ = './classifier_deit_s.py'

model = dict(backbone=dict(attention=dict(type='head_softmax', mix_tokens=True)))
