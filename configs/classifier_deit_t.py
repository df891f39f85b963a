"""DeiT-T on ImageNet-1k, 300 epochs, the baseline of Mobile-Attention.

The recipe follows Mobile-Attention (ICML 2024), section 5.1, for all its models. It does not
give augmentation and drop path, which are DeiT's here: RandAugment, mixed images, repeated
sampling. The classifier gets the class token.
"""

_base_ = [
    '_base_/classification/classifier.py',
    '_base_/datasets/imagenet1k.py',
    '_base_/schedules/adamw_mobiatt_300.py',
    '_base_/runtime.py',
]

model = dict(
    backbone=dict(
        type='mmeffvit.DeiT',
        arch=dict(type='t'),
        out_indices=(3,),
        output='class_tokens',
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=192, norm='tokens'),
    train_cfg=dict(augments=[dict(type='Mixup', alpha=0.8), dict(type='CutMix', alpha=1.0)]),
)
