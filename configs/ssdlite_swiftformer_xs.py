"""SSDLite with SwiftFormer-XS, 200 epochs on COCO at 320 x 320.

The recipe follows MobileViTv2 with the same head.
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
        type='mmeffvit.SwiftFormer',
        arch='xs',
        out_indices=(2, 3),  # strides 16 and 32
        init_cfg=dict(type='Pretrained', checkpoint='hf://timm/swiftformer_xs.dist_in1k'),
    ),
    neck=dict(in_channels=[112, 220]),
    bbox_head=dict(in_channels=[112, 220, 256, 128, 128, 64]),
)
