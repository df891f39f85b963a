"""PSPNet with MobileViTv2-1.25, 50 epochs on VOC 2012 and COCO.

The recipe follows arXiv:2206.02680, table 11: see pspnet_mobilevitv2_050_voc12.py.
"""

_base_ = './pspnet_mobilevitv2_050_voc12.py'

model = dict(
    backbone=dict(
        arch='125',
        init_cfg=dict(checkpoint='hf://timm/mobilevitv2_125.cvnets_in1k'),
    ),
    decode_head=dict(in_channels=640),
    auxiliary_head=dict(in_channels=480),
)
