"""SegFormer's decoder with SwiftFormer-XS, 160K iterations on ADE20K.

Decoder and recipe are from arXiv:2105.15203. Batch norms, which SegFormer's backbone does not have,
are synchronized.
"""

_base_ = [
    '_base_/segmentation/segformer.py',
    '_base_/datasets/ade20k.py',
    '_base_/schedules/adamw_poly_160k.py',
    '_base_/runtime_iterations.py',
]

model = dict(
    backbone=dict(
        type='mmeffvit.SwiftFormer',
        arch='xs',
        init_cfg=dict(type='Pretrained', checkpoint='hf://timm/swiftformer_xs.dist_in1k'),
    ),
    decode_head=dict(in_channels=[48, 56, 112, 220]),
)
