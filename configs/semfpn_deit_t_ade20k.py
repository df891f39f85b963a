"""Semantic FPN with DeiT-T and ViTDet's simple feature pyramid, 40K iterations on ADE20K.

Pyramid and drop path rate follow arXiv:2203.16527; the schedule follows the other Semantic
FPN configs.
"""

_base_ = [
    '_base_/segmentation/semantic_fpn.py',
    '_base_/datasets/ade20k.py',
    '_base_/schedules/adamw_poly_40k.py',
    '_base_/runtime_iterations.py',
]

model = dict(
    backbone=dict(
        type='mmeffvit.DeiT',
        arch='t',
        out_indices=(3,),
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint='hf://timm/deit_tiny_patch16_224.fb_in1k'),
    ),
    neck=dict(type='mmeffvit.SimpleFeaturePyramid', in_channels=[192]),
)
