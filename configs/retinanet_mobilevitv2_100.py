"""RetinaNet with MobileViTv2-1.0, 12 epochs on COCO.

Images are RGB in [0, 1], matching pretraining, and padded to multiples of 64, so that no map is
resized inside the backbone. The learning rate follows RetinaNet with SHViT, and batch norms are
synchronized, following the authors' detection code.
"""

_base_ = [
    '_base_/detection/retinanet.py',
    '_base_/datasets/coco_detection.py',
    '_base_/schedules/adamw_1x.py',
    '_base_/schedules/sync_bn.py',
    '_base_/runtime.py',
]

model = dict(
    data_preprocessor=dict(mean=[0.0, 0.0, 0.0], std=[255.0, 255.0, 255.0], pad_size_divisor=64),
    backbone=dict(
        type='mmeffvit.MobileViTv2',
        arch='100',
        out_indices=(2, 3, 4),  # strides 8, 16 and 32
        init_cfg=dict(type='Pretrained', checkpoint='hf://timm/mobilevitv2_100.cvnets_in1k'),
    ),
    neck=dict(
        type='FPN',
        in_channels=[256, 384, 512],
        out_channels=256,
        num_outs=5,
        add_extra_convs='on_input',  # strides 64 and 128, from the map at stride 32
    ),
)
optim_wrapper = dict(optimizer=dict(lr=1e-4))
