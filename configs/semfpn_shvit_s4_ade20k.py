"""Semantic FPN with SHViT-S4, 40K iterations on ADE20K.

The schedule follows the other Semantic FPN configs. Like the detectors of SHViT's authors,
the model keeps the statistics of batch norms, and the neck adds the levels at strides 4 and 8.
"""

_base_ = [
    '_base_/segmentation/semantic_fpn.py',
    '_base_/datasets/ade20k.py',
    '_base_/schedules/adamw_poly_40k.py',
    '_base_/runtime_iterations.py',
]

model = dict(
    backbone=dict(
        type='mmeffvit.SHViT',
        arch='s4',
        norm_eval=True,
        init_cfg=dict(type='Pretrained', checkpoint='hf://timm/shvit_s4.in1k'),
    ),
    neck=dict(
        type='mmeffvit.TransposedFPN',
        in_channels=[224, 336, 448],
        num_finer=2,  # strides 4 and 8, below 16, 32 and 64
    ),
    decode_head=dict(
        in_channels=[256, 256, 256, 256, 256],
        in_index=[0, 1, 2, 3, 4],
        feature_strides=[4, 8, 16, 32, 64],
    ),
)
