"""GFLite with SHViT-S2, 200 epochs on COCO at 320 x 320.

The recipe is SSDLite's: see gflite_shvit_s1.py.
"""

_base_ = './gflite_shvit_s1.py'

model = dict(
    backbone=dict(arch='s2', init_cfg=dict(checkpoint='hf://timm/shvit_s2.in1k')),
    neck=dict(in_channels=[128, 308, 448]),
)
