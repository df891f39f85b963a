"""MobileViT-S with one head in place of four, 300 epochs on ImageNet-1k.

In appendix E of arXiv:2206.02680, its accuracy is 0.7 points lower. The recipe is MobileViTv2's:
see classifier_mobilevit_xs_separable.py.
"""

_base_ = './classifier_mobilevit_xs_separable.py'

model = dict(backbone=dict(arch='s', attention='self', num_heads=1), head=dict(in_channels=640))
