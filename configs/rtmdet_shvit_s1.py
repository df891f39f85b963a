"""RTMDet with SHViT-S1, 300 epochs on COCO at 640 x 640.

SHViT starts at stride 16, where an object of 32 x 32 pixels has four cells, and two fifths of
COCO's objects are smaller. So the feature pyramid of its authors adds a level at stride 8 in front
of RTMDet's neck; without it, the MACs would be half. Batch norms are trained: the batch size is 32
per GPU, in the authors' detectors 2.
"""

_base_ = [
    '_base_/detection/rtmdet.py',
    '_base_/datasets/coco_detection_rtmdet.py',
    '_base_/schedules/adamw_flat_cosine_300.py',
    '_base_/runtime.py',
]

model = dict(
    data_preprocessor=dict(pad_size_divisor=64),
    backbone=dict(
        type='mmeffvit.SHViT',
        arch='s1',
        init_cfg=dict(type='Pretrained', checkpoint='hf://timm/shvit_s1.in1k'),
    ),
    neck=[
        dict(
            type='mmeffvit.TransposedFPN',
            in_channels=[128, 224, 320],
            out_channels=96,
            num_finer=1,  # stride 8, below 16, 32 and 64
        ),
        dict(
            type='CSPNeXtPAFPN',
            in_channels=[96, 96, 96, 96],
            out_channels=96,
            num_csp_blocks=1,
            expand_ratio=0.5,
            norm_cfg=dict(type='BN'),
            act_cfg=dict(type='SiLU', inplace=True),
        ),
    ],
    bbox_head=dict(anchor_generator=dict(strides=[8, 16, 32, 64])),
)
