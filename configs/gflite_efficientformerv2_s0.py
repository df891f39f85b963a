"""GFLite with EfficientFormerV2-S0, 200 epochs on COCO at 320 x 320.

The recipe follows SSDLite. The position bias tables are for 320 pixels; they are resized from
the pretrained ones.
"""

_base_ = [
    '_base_/detection/gflite.py',
    '_base_/datasets/coco_detection_320.py',
    '_base_/schedules/adamw_cosine_200.py',
    '_base_/runtime.py',
]

model = dict(
    backbone=dict(
        type='mmeffvit.EfficientFormerV2',
        arch='s0',
        out_indices=(1, 2, 3),  # strides 8, 16 and 32
        resolution=320,
        init_cfg=dict(
            type='Pretrained',
            checkpoint='hf://timm/efficientformerv2_s0.snap_dist_in1k',
        ),
    ),
    neck=dict(in_channels=[48, 96, 176]),
)
