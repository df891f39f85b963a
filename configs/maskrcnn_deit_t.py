"""Mask R-CNN with DeiT-T and ViTDet's simple feature pyramid, 12 epochs on COCO.

Pyramid and drop path rate follow arXiv:2203.16527; the schedule follows the other Mask
R-CNN configs, and attention is global in all blocks.
"""

_base_ = [
    '_base_/detection/maskrcnn.py',
    '_base_/datasets/coco_instance.py',
    '_base_/schedules/adamw_1x.py',
    '_base_/runtime.py',
]

model = dict(
    backbone=dict(
        type='mmeffvit.DeiT',
        arch='t',
        out_indices=(3,),
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint='hf://timm/deit_tiny_patch16_224.fb_in1k'),
    ),
    neck=dict(type='mmeffvit.SimpleFeaturePyramid', in_channels=[192], num_outs=5),
)
