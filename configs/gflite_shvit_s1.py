"""GFLite with SHViT-S1, 200 epochs on COCO at 320 x 320.

The recipe follows SSDLite. SHViT starts at stride 16: the neck adds the level at stride 8 by a
sub-pixel convolution, and the one at stride 64 is the last map of the backbone.
"""

_base_ = [
    '_base_/detection/gflite.py',
    '_base_/datasets/coco_detection_320.py',
    '_base_/schedules/adamw_cosine_200.py',
    '_base_/runtime.py',
]

model = dict(
    backbone=dict(
        type='mmeffvit.SHViT',
        arch='s1',
        init_cfg=dict(type='Pretrained', checkpoint='hf://timm/shvit_s1.in1k'),
    ),
    neck=dict(in_channels=[128, 224, 320], finer=True, coarser=False),
)
