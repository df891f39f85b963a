"""DeiT-T-MobiAtt learns the maps of DeiT-T, 12 epochs on COCO's images."""

_base_ = './efficientformerv2_s0_mobile.py'

released = dict(type='Pretrained', checkpoint='hf://timm/deit_tiny_patch16_224.fb_in1k')
model = dict(
    backbone=dict(type='mmeffvit.DeiTMobiAtt', arch='t', init_cfg=released),
    teacher=dict(type='mmeffvit.DeiT', arch='t', init_cfg=released),
)
