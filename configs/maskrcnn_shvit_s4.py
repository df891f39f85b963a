"""Mask R-CNN with SHViT-S4, 12 epochs on COCO.

The recipe is the authors' code: weight decay on every parameter, and batch norms that keep their
statistics.
"""

_base_ = [
    '_base_/detection/maskrcnn.py',
    '_base_/datasets/coco_instance.py',
    '_base_/schedules/adamw_1x.py',
    '_base_/runtime.py',
]

model = dict(
    backbone=dict(
        type='mmeffvit.SHViT',
        arch='s4',
        norm_eval=True,
        init_cfg=dict(type='Pretrained', checkpoint='hf://timm/shvit_s4.in1k'),
    ),
    neck=dict(
        type='mmeffvit.TransposedFPN',
        in_channels=[224, 336, 448],
        num_finer=2,  # strides 4 and 8, below 16, 32 and 64
    ),
)
optim_wrapper = dict(optimizer=dict(lr=1e-4))
param_scheduler = [
    dict(type='LinearLR', start_factor=1e-3, by_epoch=False, begin=0, end=500),
    dict(type='MultiStepLR', by_epoch=True, begin=0, end=12, milestones=[8, 11], gamma=0.1),
]
