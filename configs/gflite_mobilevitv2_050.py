"""GFLite with MobileViTv2-0.5, 200 epochs on COCO at 320 x 320.

The recipe follows SSDLite. Images are RGB in [0, 1], matching pretraining. Maps keep their size
at sides that are no multiple of 64, such as 416: the backbone resizes odd ones and restores them.
"""

_base_ = [
    '_base_/detection/gflite.py',
    '_base_/datasets/coco_detection_320.py',
    '_base_/schedules/adamw_cosine_200.py',
    '_base_/runtime.py',
]

model = dict(
    data_preprocessor=dict(mean=[0.0, 0.0, 0.0], std=[255.0, 255.0, 255.0]),
    backbone=dict(
        type='mmeffvit.MobileViTv2',
        arch='050',
        odd_size='restore',
        out_indices=(2, 3, 4),  # strides 8, 16 and 32
        init_cfg=dict(type='Pretrained', checkpoint='hf://timm/mobilevitv2_050.cvnets_in1k'),
    ),
    neck=dict(in_channels=[128, 192, 256]),
)
