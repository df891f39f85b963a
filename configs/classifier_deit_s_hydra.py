"""DeiT-S with Hydra attention, 300 epochs on ImageNet-1k: table 2."""

_base_ = './classifier_deit_s.py'

model = dict(backbone=dict(attention='hydra'))
