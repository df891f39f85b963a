"""RTMDet with MobileViTv2-0.5, 300 epochs on COCO at 640 x 640.

Images are RGB in [0, 1], matching pretraining, and padded to multiples of 64, so that no map is
resized inside the backbone.
"""

_base_ = [
    '_base_/detection/rtmdet.py',
    '_base_/datasets/coco_detection_rtmdet.py',
    '_base_/schedules/adamw_flat_cosine_300.py',
    '_base_/runtime.py',
]

model = dict(
    data_preprocessor=dict(mean=[0.0, 0.0, 0.0], std=[255.0, 255.0, 255.0], pad_size_divisor=64),
    backbone=dict(
        type='mmeffvit.MobileViTv2',
        arch='050',
        out_indices=(2, 3, 4),  # strides 8, 16 and 32
        init_cfg=dict(type='Pretrained', checkpoint='hf://timm/mobilevitv2_050.cvnets_in1k'),
    ),
    neck=dict(in_channels=[128, 192, 256]),
)
