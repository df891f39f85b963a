"""SegFormer's decoder with SHViT-S1, 160K iterations on ADE20K.

Decoder and recipe are from arXiv:2105.15203. SHViT starts at stride 16, too coarse for outlines:
the feature pyramid of its authors adds a level at stride 8, where all four are fused. Another one
at stride 4 would add no finer features and more than double the MACs. Like the authors' detectors,
the model keeps the statistics of the backbone's batch norms.
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
        type='mmeffvit.TransposedFPN',
        in_channels=[128, 224, 320],
        out_channels=128,
        num_finer=1,  # stride 8, below 16, 32 and 64
    ),
    decode_head=dict(in_channels=[128, 128, 128, 128]),
)
# the neck is trained from scratch, as the head
optim_wrapper = dict(paramwise_cfg=dict(custom_keys=dict(neck=dict(lr_mult=10.0))))
