"""PVTv2-B0 on ImageNet-1k, 300 epochs, a baseline of Mobile-Attention.

The recipe follows Mobile-Attention (ICML 2024), section 5.1, for all its models. It does not
give augmentation and drop path, which are PVTv2's (arXiv:2106.13797) here.
"""

_base_ = [
    '_base_/classification/classifier.py',
    '_base_/datasets/imagenet1k.py',
    '_base_/schedules/adamw_mobiatt_300.py',
    '_base_/runtime.py',
]

model = dict(
    backbone=dict(type='mmeffvit.PVTv2', arch='b0', out_indices=(3,), drop_path_rate=0.1),
    head=dict(in_channels=256),
    train_cfg=dict(augments=[dict(type='Mixup', alpha=0.8), dict(type='CutMix', alpha=1.0)]),
)
