"""SSDLite with MobileViTv2-0.75, 200 epochs on COCO at 320 x 320.

The recipe follows the authors' code: see ssdlite_mobilevitv2_050.py.
"""

_base_ = './ssdlite_mobilevitv2_050.py'

model = dict(
    backbone=dict(
        arch='075',
        init_cfg=dict(checkpoint='hf://timm/mobilevitv2_075.cvnets_in1k'),
    ),
    neck=dict(in_channels=[288, 384]),
    bbox_head=dict(in_channels=[288, 384, 256, 128, 128, 64]),
)
