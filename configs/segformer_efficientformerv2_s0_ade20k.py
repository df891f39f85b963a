"""SegFormer's decoder with EfficientFormerV2-S0, 160K iterations on ADE20K.

Decoder and recipe are from arXiv:2105.15203. The position bias tables are for 512 pixels; they are
resized from the pretrained ones. Batch norms are synchronized.
"""

_base_ = [
    '_base_/segmentation/segformer.py',
    '_base_/datasets/ade20k.py',
    '_base_/schedules/adamw_poly_160k.py',
    '_base_/runtime_iterations.py',
]

model = dict(
    backbone=dict(
        type='mmeffvit.EfficientFormerV2',
        arch='s0',
        resolution=512,
        init_cfg=dict(
            type='Pretrained',
            checkpoint='hf://timm/efficientformerv2_s0.snap_dist_in1k',
        ),
    ),
    decode_head=dict(in_channels=[32, 48, 96, 176]),
)
