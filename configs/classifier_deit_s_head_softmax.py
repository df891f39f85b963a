"""DeiT-S with attention among heads, equation 3, 300 epochs on ImageNet-1k: table 2.

The paper does not say how tokens are mixed; linear attention on the results is one reading.
"""

_base_ = './classifier_deit_s.py'

model = dict(backbone=dict(attention=dict(type='head_softmax', mix_tokens=True)))
