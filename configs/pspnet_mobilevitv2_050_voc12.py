"""PSPNet with MobileViTv2-0.5, 50 epochs on VOC 2012 and COCO.

The recipe follows arXiv:2206.02680, table 11, and its authors' code, which defines the order
of the augmentations.
"""

_base_ = [
    '_base_/segmentation/pspnet.py',
    '_base_/datasets/voc12_coco.py',
    '_base_/schedules/adamw_cosine_50k.py',
    '_base_/runtime_iterations.py',
]

model = dict(
    data_preprocessor=dict(mean=[0.0, 0.0, 0.0], std=[255.0, 255.0, 255.0], size_divisor=1),
    backbone=dict(
        type='mmeffvit.MobileViTv2',
        arch='050',
        output_stride=16,
        out_indices=(3, 4),
        init_cfg=dict(type='Pretrained', checkpoint='hf://timm/mobilevitv2_050.cvnets_in1k'),
    ),
    decode_head=dict(in_channels=256, num_classes=21),
    auxiliary_head=dict(in_channels=192, channels=128, num_classes=21),
)
