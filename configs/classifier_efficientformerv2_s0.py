"""EfficientFormerV2-S0 on ImageNet-1k, 450 epochs, with a teacher.

The recipe follows the authors' code for the released weights, trained for 450 epochs: two
classifiers, RegNetY-16GF as teacher, mixed images, synchronized batch norms. The rate is 0.001 at
batch size 1024; the batch size of the published runs is not given.
"""

_base_ = [
    '_base_/classification/distilled.py',
    '_base_/datasets/imagenet1k.py',
    '_base_/schedules/adamw_agc_300.py',
    '_base_/schedules/sync_bn.py',
    '_base_/runtime.py',
]

model = dict(
    backbone=dict(type='mmeffvit.EfficientFormerV2', arch='s0', out_indices=(3,), resolution=224),
    head=dict(in_channels=176),
    train_cfg=dict(augments=[dict(type='Mixup', alpha=0.8), dict(type='CutMix', alpha=1.0)]),
)
train_cfg = dict(max_epochs=450)
optim_wrapper = dict(optimizer=dict(lr=1e-3))
param_scheduler = [
    dict(type='LinearLR', start_factor=1e-3, by_epoch=True, begin=0, end=5),
    dict(type='CosineAnnealingLR', by_epoch=True, begin=5, end=450, T_max=445, eta_min=1e-5),
]
train_dataloader = dict(batch_size=128)
auto_scale_lr = dict(base_batch_size=1024)
