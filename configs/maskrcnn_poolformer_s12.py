"""Mask R-CNN with PoolFormer-S12, 12 epochs on COCO.

A baseline of the papers on SwiftFormer and Mobile-Attention. The backbone is mmpretrain's, which
would freeze the stem by default; the recipe follows PoolFormer's authors' code
(arXiv:2111.11418).
"""

_base_ = [
    '_base_/detection/maskrcnn.py',
    '_base_/datasets/coco_instance.py',
    '_base_/schedules/adamw_1x.py',
    '_base_/runtime.py',
]

model = dict(
    backbone=dict(
        type='mmpretrain.PoolFormer',
        arch='s12',
        out_indices=(0, 2, 4, 6),  # strides 4, 8, 16 and 32
        frozen_stages=-1,
        init_cfg=dict(
            type='Pretrained',
            checkpoint='https://download.openmmlab.com/mmclassification/v0/poolformer/'
            'poolformer-s12_3rdparty_32xb128_in1k_20220414-f8d83051.pth',
            prefix='backbone.',
        ),
    ),
    neck=dict(type='FPN', in_channels=[64, 128, 320, 512], out_channels=256, num_outs=5),
)
optim_wrapper = dict(optimizer=dict(weight_decay=1e-4))
