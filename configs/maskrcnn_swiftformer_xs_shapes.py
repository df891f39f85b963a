"""Mask R-CNN with SwiftFormer-XS from scratch on generated shapes, for two CPU cores.

The heads follow the COCO recipe at a quarter of the width, for 128-pixel images; for the
recipe on COCO see maskrcnn_swiftformer_xs.py.
"""

_base_ = './maskrcnn_swiftformer_xs.py'

data_root = '{{$DATA_ROOT:data/shapes}}/'
classes = ('circle', 'square', 'triangle', 'star')
num_epochs = 8

model = dict(
    backbone=dict(init_cfg=None),
    neck=dict(out_channels=64, norm_cfg=dict(type='BN'), num_outs=4),
    rpn_head=dict(
        in_channels=64,
        feat_channels=64,
        anchor_generator=dict(scales=[4], strides=[4, 8, 16, 32]),
    ),
    roi_head=dict(
        bbox_roi_extractor=dict(out_channels=64, finest_scale=28),
        bbox_head=dict(in_channels=64, fc_out_channels=256, num_classes=len(classes)),
        mask_roi_extractor=dict(out_channels=64, finest_scale=28),
        mask_head=dict(num_convs=2, in_channels=64, conv_out_channels=64, num_classes=len(classes)),
    ),
    train_cfg=dict(
        rpn=dict(sampler=dict(num=128)),
        rpn_proposal=dict(nms_pre=300, max_per_img=100),
        rcnn=dict(sampler=dict(num=48, pos_fraction=0.33)),
    ),
    test_cfg=dict(rpn=dict(nms_pre=300, max_per_img=100), rcnn=dict(max_per_img=30)),
)

train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnnotations', with_bbox=True, with_mask=True),
    dict(type='Resize', scale=(128, 128)),
    dict(type='RandomFlip', prob=0.5),
    dict(type='PackDetInputs'),
]
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='Resize', scale=(128, 128)),
    dict(type='LoadAnnotations', with_bbox=True, with_mask=True),
    dict(
        type='PackDetInputs',
        meta_keys=('img_id', 'img_path', 'ori_shape', 'img_shape', 'scale_factor'),
    ),
]
palette = [(220, 50, 47), (38, 139, 210), (133, 153, 0), (211, 54, 130)]
shapes = dict(data_root=data_root, metainfo=dict(classes=classes, palette=palette))
train_dataloader = dict(
    batch_size=8,
    num_workers=0,
    dataset=dict(**shapes, pipeline=train_pipeline),
)
val_dataloader = dict(
    batch_size=8,
    num_workers=0,
    dataset=dict(**shapes, pipeline=test_pipeline),
)
test_dataloader = val_dataloader
val_evaluator = dict(ann_file=data_root + 'annotations/instances_val2017.json')
test_evaluator = val_evaluator

train_cfg = dict(max_epochs=num_epochs, val_interval=num_epochs)
optim_wrapper = dict(
    optimizer=dict(lr=2e-3, weight_decay=0.05),
    clip_grad=dict(max_norm=10),
)
param_scheduler = [
    dict(type='LinearLR', start_factor=1e-3, by_epoch=False, begin=0, end=30),
    dict(
        type='CosineAnnealingLR',
        eta_min=2e-5,
        begin=0,
        end=num_epochs,
        T_max=num_epochs,
        convert_to_iter_based=True,
    ),
]
auto_scale_lr = dict(base_batch_size=8)
default_hooks = dict(logger=dict(interval=20))
