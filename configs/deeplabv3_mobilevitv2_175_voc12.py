"""DeepLabv3 with MobileViTv2-1.75, 50 epochs on VOC 2012 and COCO.

The recipe follows arXiv:2206.02680, table 11: see deeplabv3_mobilevitv2_050_voc12.py.
"""

_base_ = './deeplabv3_mobilevitv2_050_voc12.py'

model = dict(
    backbone=dict(
        arch='175',
        init_cfg=dict(checkpoint='hf://timm/mobilevitv2_175.cvnets_in1k'),
    ),
    decode_head=dict(in_channels=896),
    auxiliary_head=dict(in_channels=672, channels=168),
)
