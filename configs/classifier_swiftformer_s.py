"""SwiftFormer-S on ImageNet-1k, 300 epochs, with a teacher; the recipe of XS with RandAugment."""

_base_ = [
    '_base_/classification/distilled.py',
    '_base_/datasets/imagenet1k.py',
    '_base_/schedules/adamw_agc_300.py',
    '_base_/runtime.py',
]

model = dict(
    backbone=dict(type='mmeffvit.SwiftFormer', arch='s', out_indices=(3,), output_norm=False),
    head=dict(in_channels=224),
)
auto_scale_lr = dict(enable=False, base_batch_size=2048)
