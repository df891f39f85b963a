"""PVTv2-B0-MobiAtt learns the maps of PVTv2-B0, 12 epochs on COCO's images."""

_base_ = './efficientformerv2_s0_mobile.py'

released = dict(type='Pretrained', checkpoint='hf://timm/pvt_v2_b0.in1k')
model = dict(
    backbone=dict(type='mmeffvit.PVTv2MobiAtt', arch='b0', init_cfg=released),
    teacher=dict(type='mmeffvit.PVTv2', arch='b0', init_cfg=released),
)
