"""RetinaNet with PVTv2-B0, 12 epochs on COCO, a baseline of SHViT (arXiv:2401.16456), table 5.

The rate and the weight decay follow PVTv2's authors.
"""

_base_ = [
    '_base_/detection/retinanet.py',
    '_base_/datasets/coco_detection.py',
    '_base_/schedules/adamw_1x.py',
    '_base_/runtime.py',
]

model = dict(
    backbone=dict(
        type='mmeffvit.PVTv2',
        arch='b0',
        out_indices=(1, 2, 3),  # strides 8, 16 and 32
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint='hf://timm/pvt_v2_b0.in1k'),
    ),
    neck=dict(
        type='FPN',
        in_channels=[64, 160, 256],
        out_channels=256,
        num_outs=5,
        add_extra_convs='on_input',  # strides 64 and 128, from the map at stride 32
    ),
)
optim_wrapper = dict(optimizer=dict(lr=1e-4, weight_decay=1e-4))
