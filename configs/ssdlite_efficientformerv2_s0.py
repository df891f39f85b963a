"""SSDLite with EfficientFormerV2-S0, 200 epochs on COCO at 320 x 320.

The recipe follows MobileViTv2 with the same head. The position bias tables are for 320 pixels;
they are resized from the pretrained ones.
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
        type='mmeffvit.EfficientFormerV2',
        arch='s0',
        out_indices=(2, 3),  # strides 16 and 32
        resolution=320,
        init_cfg=dict(
            type='Pretrained',
            checkpoint='hf://timm/efficientformerv2_s0.snap_dist_in1k',
        ),
    ),
    neck=dict(in_channels=[96, 176]),
    bbox_head=dict(in_channels=[96, 176, 256, 128, 128, 64]),
)
