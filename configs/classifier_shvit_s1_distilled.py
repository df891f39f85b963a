"""SHViT-S1 on ImageNet-1k with a teacher, 300 epochs: table 3 of arXiv:2401.16456.

The recipe follows the authors' code: see classifier_shvit_s1.py.
"""

_base_ = ['./classifier_shvit_s1.py', '_base_/classification/hard_distillation.py']

model = {{_base_.hard_distillation}}
