"""PSPNet with SwiftFormer-L1, 40K iterations on ADE20K.

The recipe follows Semantic FPN with the same backbone. Dilation keeps the last two stages at
stride 8, where efficient additive attention still has linear cost.
"""

_base_ = [
    '_base_/segmentation/pspnet.py',
    '_base_/datasets/ade20k.py',
    '_base_/schedules/adamw_poly_40k.py',
    '_base_/schedules/sync_bn.py',
    '_base_/runtime_iterations.py',
]

model = dict(
    data_preprocessor=dict(size=(512, 512)),
    backbone=dict(
        type='mmeffvit.SwiftFormer',
        arch='l1',
        output_stride=8,
        out_indices=(2, 3),
        init_cfg=dict(type='Pretrained', checkpoint='hf://timm/swiftformer_l1.dist_in1k'),
    ),
    decode_head=dict(in_channels=384),
    auxiliary_head=dict(in_channels=192, channels=128),
)
