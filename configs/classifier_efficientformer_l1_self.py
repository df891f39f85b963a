"""EfficientFormer-L1 with conv. encoders, 300 epochs on ImageNet-1k, with a teacher.

Row 2 of table 1 of arXiv:2303.15446: depth-wise convolutions replace pooling. Row 1 is mmpretrain's
efficientformer-l1_8xb128_in1k, row 4 SwiftFormer-L1. The recipe is SwiftFormer's: see
classifier_swiftformer_s.py.
"""

_base_ = [
    '_base_/classification/distilled.py',
    '_base_/datasets/imagenet1k.py',
    '_base_/schedules/adamw_agc_300.py',
    '_base_/runtime.py',
]

model = dict(
    backbone=dict(
        type='mmeffvit.EfficientFormer', arch='l1', attention='self', reshape_last_feat=True
    ),
    head=dict(in_channels=448, norm='none'),
    train_cfg=dict(augments=[dict(type='Mixup', alpha=0.8), dict(type='CutMix', alpha=1.0)]),
)
