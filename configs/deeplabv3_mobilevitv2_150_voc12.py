"""DeepLabv3 with MobileViTv2-1.5, 50 epochs on VOC 2012 and COCO.

The recipe follows arXiv:2206.02680, table 11: see deeplabv3_mobilevitv2_050_voc12.py.
"""

_base_ = './deeplabv3_mobilevitv2_050_voc12.py'

model = dict(
    backbone=dict(
        arch='150',
        init_cfg=dict(checkpoint='hf://timm/mobilevitv2_150.cvnets_in1k'),
    ),
    decode_head=dict(in_channels=768),
    auxiliary_head=dict(in_channels=576, channels=144),
)
