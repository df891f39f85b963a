"""SegFormer's decoder with MobileViTv2-0.5, 160K iterations on ADE20K.

Decoder and recipe are from arXiv:2105.15203. Images are RGB in [0, 1], matching pretraining, and
padded to multiples of 64, so that no map is resized inside the backbone.
"""

_base_ = [
    '_base_/segmentation/segformer.py',
    '_base_/datasets/ade20k.py',
    '_base_/schedules/adamw_poly_160k.py',
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
        arch='050',
        out_indices=(1, 2, 3, 4),  # strides 4, 8, 16 and 32
        init_cfg=dict(type='Pretrained', checkpoint='hf://timm/mobilevitv2_050.cvnets_in1k'),
    ),
    decode_head=dict(in_channels=[64, 128, 192, 256]),
)
