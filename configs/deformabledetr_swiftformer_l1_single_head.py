"""Deformable DETR with SwiftFormer-L1, single-head layers, 50 epochs on COCO.

The levels have the strides of the recipe: 8, 16 and 32 from the backbone, and 64 from a
convolution.
"""

_base_ = [
    '_base_/detection/deformable_detr.py',
    '_base_/datasets/coco_detection_detr.py',
    '_base_/schedules/adamw_50e.py',
    '_base_/runtime.py',
]

model = dict(
    type='mmeffvit.SingleHeadDeformableDETR',
    backbone=dict(
        type='mmeffvit.SwiftFormer',
        arch='l1',
        out_indices=(1, 2, 3),
        init_cfg=dict(type='Pretrained', checkpoint='hf://timm/swiftformer_l1.dist_in1k'),
    ),
    neck=dict(in_channels=[96, 192, 384]),
)
train_dataloader = dict(batch_size=4)  # 8 GPUs
