"""SSDLite with SHViT-S1, 200 epochs on COCO at 320 x 320.

The recipe follows MobileViTv2 with the same head. The third level, at stride 64, is the last map
of the backbone, where other families have an extra one. Batch norms are trained: the batch size is
32 per GPU, in the detectors of SHViT's authors 2.
"""

_base_ = [
    '_base_/detection/ssdlite.py',
    '_base_/datasets/coco_detection_320.py',
    '_base_/schedules/adamw_cosine_200.py',
    '_base_/runtime.py',
]

model = dict(
    data_preprocessor=dict(mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375]),
    backbone=dict(
        type='mmeffvit.SHViT',
        arch='s1',
        init_cfg=dict(type='Pretrained', checkpoint='hf://timm/shvit_s1.in1k'),
    ),
    neck=dict(in_channels=[128, 224, 320], extra_channels=[128, 128]),
    bbox_head=dict(in_channels=[128, 224, 320, 128, 128, 64]),
)
