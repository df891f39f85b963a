"""DeiT-S with Castling's linear-angular attention, 300 epochs on ImageNet-1k: table 2.

Castling-ViT's masked softmax, added during training, is on; the paper does not mention it. The
recipe is Mobile-Attention's, section 5.1: see classifier_deit_t.py.
"""

_base_ = './classifier_deit_s.py'

model = dict(backbone=dict(attention=dict(type='castling', auxiliary=True)))
