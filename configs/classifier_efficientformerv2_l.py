"""EfficientFormerV2-L on ImageNet-1k, 450 epochs, with a teacher.

The recipe follows the authors' code: see classifier_efficientformerv2_s0.py.
"""

_base_ = './classifier_efficientformerv2_s0.py'

model = dict(backbone=dict(arch='l', drop_path_rate=0.1), head=dict(in_channels=384))
