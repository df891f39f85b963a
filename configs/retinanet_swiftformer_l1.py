"""RetinaNet with SwiftFormer-L1, 12 epochs on COCO.

The recipe follows Mask R-CNN with the same backbone.
"""

_base_ = [
    '_base_/detection/retinanet.py',
    '_base_/datasets/coco_detection.py',
    '_base_/schedules/adamw_1x.py',
    '_base_/runtime.py',
]

model = dict(
    backbone=dict(
        type='mmeffvit.SwiftFormer',
        arch='l1',
        out_indices=(1, 2, 3),  # strides 8, 16 and 32
        init_cfg=dict(type='Pretrained', checkpoint='hf://timm/swiftformer_l1.dist_in1k'),
    ),
    neck=dict(
        type='FPN',
        in_channels=[96, 192, 384],
        out_channels=256,
        num_outs=5,
        add_extra_convs='on_input',  # strides 64 and 128, from the map at stride 32
    ),
)
train_dataloader = dict(batch_size=4)  # 8 GPUs
optim_wrapper = dict(optimizer=dict(weight_decay=1e-4))
auto_scale_lr = dict(base_batch_size=32)
