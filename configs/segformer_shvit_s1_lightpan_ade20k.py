"""SegFormer's decoder with SHViT-S1 and GFLite's neck at stride 8, 160K iterations on ADE20K.

The neck adds the level at stride 8 and fuses all levels by depth-wise 5x5 convolutions, at two
thirds of the MACs of `segformer_shvit_s1_ade20k`, whose recipe it has.
"""

_base_ = [
    '_base_/segmentation/segformer.py',
    '_base_/datasets/ade20k.py',
    '_base_/schedules/adamw_poly_160k.py',
    '_base_/runtime_iterations.py',
]

model = dict(
    backbone=dict(
        type='mmeffvit.SHViT',
        arch='s1',
        norm_eval=True,
        init_cfg=dict(type='Pretrained', checkpoint='hf://timm/shvit_s1.in1k'),
    ),
    neck=dict(
        type='mmeffvit.LightPAN',
        in_channels=[128, 224, 320],
        out_channels=64,
        finer=True,  # stride 8, below 16, 32 and 64
    ),
    decode_head=dict(in_channels=[64, 64, 64, 64]),
)
# the neck is trained from scratch, as the head
optim_wrapper = dict(paramwise_cfg=dict(custom_keys=dict(neck=dict(lr_mult=10.0))))
