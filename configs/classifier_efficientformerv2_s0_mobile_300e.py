"""EfficientFormerV2-S0-MobiAtt on ImageNet-1k, 300 epochs, with a teacher.

The recipe follows Mobile-Attention (ICML 2024), section 5.1: AdamW at 0.001 for batch size 2048,
cosine. Teacher, augmentation and drop path are not given; they are EfficientFormerV2's, whose
300-epoch accuracies table 1 compares with. EfficientFormerV2's own code for 300 epochs also has a
weight decay of 0.025, adaptive gradient clipping at 0.01 and EMA weights: see adamw_agc_300.py.
"""

_base_ = [
    '_base_/classification/distilled.py',
    '_base_/datasets/imagenet1k.py',
    '_base_/schedules/adamw_mobiatt_300.py',
    '_base_/schedules/sync_bn.py',
    '_base_/runtime.py',
]

model = dict(
    backbone=dict(
        type='mmeffvit.EfficientFormerV2',
        arch='s0',
        attention=dict(type='mobile'),
        out_indices=(3,),
        resolution=224,
    ),
    head=dict(in_channels=176),
    train_cfg=dict(augments=[dict(type='Mixup', alpha=0.8), dict(type='CutMix', alpha=1.0)]),
)
