"""DeepLabv3 with MobileViTv2-1.25, 120 epochs on ADE20K.

The recipe follows arXiv:2206.02680, table 11: see deeplabv3_mobilevitv2_050_ade20k.py.
"""

_base_ = './deeplabv3_mobilevitv2_050_ade20k.py'

model = dict(
    backbone=dict(
        arch='125',
        init_cfg=dict(checkpoint='hf://timm/mobilevitv2_125.cvnets_in1k'),
    ),
    decode_head=dict(in_channels=640),
    auxiliary_head=dict(in_channels=480),
)
