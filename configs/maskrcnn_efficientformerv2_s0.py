"""Mask R-CNN with EfficientFormerV2-S0, 12 epochs on COCO.

The recipe is the authors' code: learning rate 2e-4, weight decay on every parameter, and
synchronized batch norms. The position bias tables are for 800 pixels, as there; they are
initialized by resizing the pretrained ones, the authors' with zeros.
"""

_base_ = [
    '_base_/detection/maskrcnn.py',
    '_base_/datasets/coco_instance.py',
    '_base_/schedules/adamw_1x.py',
    '_base_/schedules/sync_bn.py',
    '_base_/runtime.py',
]

model = dict(
    backbone=dict(
        type='mmeffvit.EfficientFormerV2',
        arch='s0',
        resolution=800,
        resize_matrix=False,  # True for the authors' own detectors
        init_cfg=dict(
            type='Pretrained',
            checkpoint='hf://timm/efficientformerv2_s0.snap_dist_in1k',
        ),
    ),
    neck=dict(type='FPN', in_channels=[32, 48, 96, 176], out_channels=256, num_outs=5),
)
