"""Mask R-CNN with SwiftFormer-XS, 12 epochs on COCO.

The recipe is the one of arXiv:2303.15446, section 4.1, for L1 and L3. It does not specify the
weight decay, the warm-up and the steps, but follows EfficientFormer, whose values are used here.
"""

_base_ = [
    '_base_/detection/maskrcnn.py',
    '_base_/datasets/coco_instance.py',
    '_base_/schedules/adamw_1x.py',
    '_base_/runtime.py',
]

model = dict(
    backbone=dict(
        type='mmeffvit.SwiftFormer',
        arch='xs',
        init_cfg=dict(type='Pretrained', checkpoint='hf://timm/swiftformer_xs.dist_in1k'),
    ),
    neck=dict(type='FPN', in_channels=[48, 56, 112, 220], out_channels=256, num_outs=5),
)
train_dataloader = dict(batch_size=4)  # 8 GPUs
optim_wrapper = dict(optimizer=dict(weight_decay=1e-4))
auto_scale_lr = dict(base_batch_size=32)
