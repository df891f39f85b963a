"""PSPNet with MobileViTv2-0.5, 120 epochs on ADE20K.

The recipe follows arXiv:2206.02680, table 11, and its authors' code, which defines the order
of the augmentations.
"""

_base_ = [
    '_base_/segmentation/pspnet.py',
    '_base_/datasets/ade20k_cvnets.py',
    '_base_/schedules/sgd_cosine_152k.py',
    '_base_/runtime_iterations.py',
]

model = dict(
    data_preprocessor=dict(mean=[0.0, 0.0, 0.0], std=[255.0, 255.0, 255.0], size_divisor=1),
    backbone=dict(
        type='mmeffvit.MobileViTv2',
        arch='050',
        output_stride=8,
        out_indices=(3, 4),
        init_cfg=dict(type='Pretrained', checkpoint='hf://timm/mobilevitv2_050.cvnets_in1k'),
    ),
    decode_head=dict(in_channels=256),
    auxiliary_head=dict(in_channels=192, channels=128),
)
