"""RTMDet with SwiftFormer-XS, 300 epochs on COCO at 640 x 640.

Neck and head have the width of RTMDet's tiny model.
"""

_base_ = [
    '_base_/detection/rtmdet.py',
    '_base_/datasets/coco_detection_rtmdet.py',
    '_base_/schedules/adamw_flat_cosine_300.py',
    '_base_/runtime.py',
]

model = dict(
    backbone=dict(
        type='mmeffvit.SwiftFormer',
        arch='xs',
        out_indices=(1, 2, 3),  # strides 8, 16 and 32
        init_cfg=dict(type='Pretrained', checkpoint='hf://timm/swiftformer_xs.dist_in1k'),
    ),
    neck=dict(in_channels=[56, 112, 220]),
)
