"""Semantic FPN with SwiftFormer-L1, 40K iterations on ADE20K.

The recipe follows arXiv:2303.15446, section 4.1. It does not specify the weight decay and the
augmentation, which are EfficientFormerV2's here, as is the final learning rate of 1e-6:
EfficientFormer V1, which the paper follows, ends at 0.
"""

_base_ = [
    '_base_/segmentation/semantic_fpn.py',
    '_base_/datasets/ade20k.py',
    '_base_/schedules/adamw_poly_40k.py',
    '_base_/runtime_iterations.py',
]

model = dict(
    backbone=dict(
        type='mmeffvit.SwiftFormer',
        arch='l1',
        init_cfg=dict(type='Pretrained', checkpoint='hf://timm/swiftformer_l1.dist_in1k'),
    ),
    neck=dict(type='FPN', in_channels=[48, 96, 192, 384], out_channels=256, num_outs=4),
)
