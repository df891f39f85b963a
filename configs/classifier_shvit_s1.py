"""SHViT-S1 on ImageNet-1k, 300 epochs.

The recipe follows the authors' code: no teacher, mixed images, a rate of 0.001 per 512 images
(here 2048), a different weight decay for each variant. The classifier has a batch norm after the
mean.
"""

_base_ = [
    '_base_/classification/classifier.py',
    '_base_/datasets/imagenet1k.py',
    '_base_/schedules/adamw_agc_300.py',
    '_base_/runtime.py',
]

model = dict(
    backbone=dict(type='mmeffvit.SHViT', arch='s1', out_indices=(2,)),
    head=dict(in_channels=320, norm='pooled'),
    train_cfg=dict(augments=[dict(type='Mixup', alpha=0.8), dict(type='CutMix', alpha=1.0)]),
)
optim_wrapper = dict(clip_factor=0.02, optimizer=dict(lr=4e-3, weight_decay=0.025))
param_scheduler = [
    dict(type='LinearLR', start_factor=2.5e-4, by_epoch=True, begin=0, end=5),
    dict(type='CosineAnnealingLR', by_epoch=True, begin=5, end=300, T_max=295, eta_min=1e-5),
]
