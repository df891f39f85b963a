"""DeepLabv3 with SHViT-S4, 40K iterations on ADE20K.

The recipe follows Semantic FPN with the same backbone. SHViT starts at stride 16, where dilation
keeps all stages; batch norms of the backbone keep their statistics.
"""

_base_ = [
    '_base_/segmentation/deeplabv3.py',
    '_base_/datasets/ade20k.py',
    '_base_/schedules/adamw_poly_40k.py',
    '_base_/schedules/sync_bn.py',
    '_base_/runtime_iterations.py',
]

model = dict(
    data_preprocessor=dict(size=(512, 512)),
    backbone=dict(
        type='mmeffvit.SHViT',
        arch='s4',
        output_stride=16,
        out_indices=(1, 2),
        norm_eval=True,
        init_cfg=dict(type='Pretrained', checkpoint='hf://timm/shvit_s4.in1k'),
    ),
    decode_head=dict(in_channels=448, dilations=(6, 12, 18)),
    auxiliary_head=dict(in_channels=336, channels=128),
)
