"""RTMDet with EfficientFormerV2-S0, 300 epochs on COCO at 640 x 640.

The position bias tables are for 640 pixels; they are resized from the pretrained ones.
"""

_base_ = [
    '_base_/detection/rtmdet.py',
    '_base_/datasets/coco_detection_rtmdet.py',
    '_base_/schedules/adamw_flat_cosine_300.py',
    '_base_/runtime.py',
]

model = dict(
    backbone=dict(
        type='mmeffvit.EfficientFormerV2',
        arch='s0',
        out_indices=(1, 2, 3),  # strides 8, 16 and 32
        resolution=640,
        init_cfg=dict(
            type='Pretrained',
            checkpoint='hf://timm/efficientformerv2_s0.snap_dist_in1k',
        ),
    ),
    neck=dict(in_channels=[48, 96, 176]),
)
