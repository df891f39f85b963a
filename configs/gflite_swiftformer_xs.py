"""GFLite with SwiftFormer-XS, 200 epochs on COCO at 320 x 320.

The recipe follows SSDLite.
"""

_base_ = [
    '_base_/detection/gflite.py',
    '_base_/datasets/coco_detection_320.py',
    '_base_/schedules/adamw_cosine_200.py',
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
