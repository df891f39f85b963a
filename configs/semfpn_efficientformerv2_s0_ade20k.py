"""Semantic FPN with EfficientFormerV2-S0, 40K iterations on ADE20K.

The recipe is the authors' code: weight decay on every parameter, and synchronized batch norms, also
in the backbone.
"""

_base_ = [
    '_base_/segmentation/semantic_fpn.py',
    '_base_/datasets/ade20k.py',
    '_base_/schedules/adamw_poly_40k.py',
    '_base_/schedules/sync_bn.py',
    '_base_/runtime_iterations.py',
]

model = dict(
    backbone=dict(
        type='mmeffvit.EfficientFormerV2',
        arch='s0',
        resolution=512,
        resize_matrix=False,  # True for the authors' own segmentors
        init_cfg=dict(
            type='Pretrained', checkpoint='hf://timm/efficientformerv2_s0.snap_dist_in1k'
        ),
    ),
    neck=dict(type='FPN', in_channels=[32, 48, 96, 176], out_channels=256, num_outs=4),
)
