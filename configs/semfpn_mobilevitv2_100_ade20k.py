"""Semantic FPN with MobileViTv2-1.0, 40K iterations on ADE20K.

The schedule follows the other Semantic FPN configs. Images are RGB in [0, 1], matching
pretraining, and padded to multiples of 64, so that no map is resized inside the backbone. Batch
norms are synchronized, following the segmentation code of MobileViTv2's authors.
"""

_base_ = [
    '_base_/segmentation/semantic_fpn.py',
    '_base_/datasets/ade20k.py',
    '_base_/schedules/adamw_poly_40k.py',
    '_base_/schedules/sync_bn.py',
    '_base_/runtime_iterations.py',
]

model = dict(
    data_preprocessor=dict(
        mean=[0.0, 0.0, 0.0],
        std=[255.0, 255.0, 255.0],
        test_cfg=dict(size_divisor=64),
    ),
    backbone=dict(
        type='mmeffvit.MobileViTv2',
        arch='100',
        out_indices=(1, 2, 3, 4),  # strides 4, 8, 16 and 32
        init_cfg=dict(type='Pretrained', checkpoint='hf://timm/mobilevitv2_100.cvnets_in1k'),
    ),
    neck=dict(type='FPN', in_channels=[128, 256, 384, 512], out_channels=256, num_outs=4),
)
