"""MobileViTv2-2.0 on ImageNet-1k, 300 epochs at 256 x 256.

The recipe follows the authors' code; table 9 is for this width, and only the code has the rates
and weight decays of the others. The authors train in mixed precision, here `--amp`. Images are RGB
in 0 to 1, without mean and std.
"""

_base_ = [
    '_base_/classification/classifier.py',
    '_base_/datasets/imagenet1k_cvnets.py',
    '_base_/schedules/adamw_cvnets_300.py',
    '_base_/runtime.py',
]

model = dict(
    data_preprocessor=dict(mean=[0.0, 0.0, 0.0], std=[255.0, 255.0, 255.0]),
    backbone=dict(type='mmeffvit.MobileViTv2', arch='200', out_indices=(4,)),
    head=dict(
        in_channels=1024,
        init_cfg=dict(type='Xavier', layer='Linear', distribution='uniform'),
    ),
    train_cfg=dict(augments=[dict(type='Mixup', alpha=0.2), dict(type='CutMix', alpha=1.0)]),
)
