"""Mask R-CNN with MobileViTv2-1.0, 12 epochs on COCO.

The recipe follows RetinaNet with the same backbone.
"""

_base_ = [
    '_base_/detection/maskrcnn.py',
    '_base_/datasets/coco_instance.py',
    '_base_/schedules/adamw_1x.py',
    '_base_/schedules/sync_bn.py',
    '_base_/runtime.py',
]

model = dict(
    data_preprocessor=dict(mean=[0.0, 0.0, 0.0], std=[255.0, 255.0, 255.0], pad_size_divisor=64),
    backbone=dict(
        type='mmeffvit.MobileViTv2',
        arch='100',
        out_indices=(1, 2, 3, 4),  # strides 4, 8, 16 and 32
        init_cfg=dict(type='Pretrained', checkpoint='hf://timm/mobilevitv2_100.cvnets_in1k'),
    ),
    neck=dict(type='FPN', in_channels=[128, 256, 384, 512], out_channels=256, num_outs=5),
)
optim_wrapper = dict(optimizer=dict(lr=1e-4))
