"""RetinaNet with EfficientFormerV2-S2, 12 epochs on COCO.

The recipe follows Mask R-CNN with the same backbone.
"""

_base_ = [
    '_base_/detection/retinanet.py',
    '_base_/datasets/coco_detection.py',
    '_base_/schedules/adamw_1x.py',
    '_base_/schedules/sync_bn.py',
    '_base_/runtime.py',
]

model = dict(
    backbone=dict(
        type='mmeffvit.EfficientFormerV2',
        arch='s2',
        out_indices=(1, 2, 3),  # strides 8, 16 and 32
        resolution=800,
        drop_path_rate=0.02,
        init_cfg=dict(
            type='Pretrained',
            checkpoint='hf://timm/efficientformerv2_s2.snap_dist_in1k',
        ),
    ),
    neck=dict(
        type='FPN',
        in_channels=[64, 144, 288],
        out_channels=256,
        num_outs=5,
        add_extra_convs='on_input',  # strides 64 and 128, from the map at stride 32
    ),
)
