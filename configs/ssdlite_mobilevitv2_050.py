"""SSDLite with MobileViTv2-0.5, 200 epochs on COCO at 320 x 320.

The recipe follows the authors' code, with weight decay on every parameter, and the paper's
clipping of gradients at 10. They train in mixed precision, here `--amp`, with synchronized batch
norms on four GPUs, and validate both the weights and their EMA; here the EMA weights are tested.
"""

_base_ = [
    '_base_/detection/ssdlite.py',
    '_base_/datasets/coco_detection_320.py',
    '_base_/schedules/adamw_cosine_200.py',
    '_base_/runtime.py',
]

model = dict(
    backbone=dict(
        type='mmeffvit.MobileViTv2',
        arch='050',
        out_indices=(3, 4),  # strides 16 and 32
        init_cfg=dict(type='Pretrained', checkpoint='hf://timm/mobilevitv2_050.cvnets_in1k'),
    ),
    neck=dict(in_channels=[192, 256]),
    bbox_head=dict(in_channels=[192, 256, 256, 128, 128, 64]),
)
