"""Deformable DETR with ResNet-50, 50 epochs on COCO."""

_base_ = [
    '_base_/detection/deformable_detr.py',
    '_base_/datasets/coco_detection_detr.py',
    '_base_/schedules/adamw_50e.py',
    '_base_/runtime.py',
]

model = dict(
    backbone=dict(
        type='ResNet',
        depth=50,
        num_stages=4,
        out_indices=(1, 2, 3),
        frozen_stages=1,
        norm_cfg=dict(type='BN', requires_grad=False),
        norm_eval=True,
        style='pytorch',
        init_cfg=dict(
            type='Pretrained',
            # the file of torchvision://resnet50, without requiring torchvision
            checkpoint='https://download.pytorch.org/models/resnet50-0676ba61.pth',
        ),
    ),
    neck=dict(in_channels=[512, 1024, 2048]),
)
train_dataloader = dict(batch_size=4)  # 8 GPUs
