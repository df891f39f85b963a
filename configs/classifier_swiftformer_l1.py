"""SwiftFormer-L1 on ImageNet-1k, 300 epochs, with a teacher and mixed images.

The recipe follows the authors' code: see classifier_swiftformer_s.py.
"""

_base_ = './classifier_swiftformer_s.py'

model = dict(
    backbone=dict(arch='l1'),
    head=dict(in_channels=384),
    train_cfg=dict(augments=[dict(type='Mixup', alpha=0.8), dict(type='CutMix', alpha=1.0)]),
)
