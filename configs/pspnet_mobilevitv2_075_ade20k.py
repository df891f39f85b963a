"""PSPNet with MobileViTv2-0.75, 120 epochs on ADE20K.

The recipe follows arXiv:2206.02680, table 11: see pspnet_mobilevitv2_050_ade20k.py.
"""

_base_ = './pspnet_mobilevitv2_050_ade20k.py'

model = dict(
    backbone=dict(
        arch='075',
        init_cfg=dict(checkpoint='hf://timm/mobilevitv2_075.cvnets_in1k'),
    ),
    decode_head=dict(in_channels=384),
    auxiliary_head=dict(in_channels=288),
)
