"""Deformable DETR with SHViT-S4, single-head layers, 50 epochs on COCO.

The levels have the strides of the recipe, 8 to 64: the first neck adds stride 8, as SHViT's
authors do for RetinaNet, the second normalizes the inputs of the transformer. Like its other
recipes, this one keeps the statistics of the backbone's batch norms.
"""

_base_ = [
    '_base_/detection/deformable_detr.py',
    '_base_/datasets/coco_detection_detr.py',
    '_base_/schedules/adamw_50e.py',
    '_base_/runtime.py',
]

model = dict(
    type='mmeffvit.SingleHeadDeformableDETR',
    backbone=dict(
        type='mmeffvit.SHViT',
        arch='s4',
        norm_eval=True,
        init_cfg=dict(type='Pretrained', checkpoint='hf://timm/shvit_s4.in1k'),
    ),
    neck=[
        dict(
            type='mmeffvit.TransposedFPN',
            in_channels=[224, 336, 448],
            num_finer=1,  # stride 8, below 16, 32 and 64
        ),
        dict(
            type='ChannelMapper',
            in_channels=[256, 256, 256, 256],
            kernel_size=1,
            out_channels=256,
            act_cfg=None,
            norm_cfg=dict(type='GN', num_groups=32),
            num_outs=4,
        ),
    ],
)
train_dataloader = dict(batch_size=4)  # 8 GPUs
