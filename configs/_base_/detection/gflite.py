"""GFLite, without its backbone: depth-wise 5x5 neck and head of 96 channels, one stage.

A config adds the backbone and its channels; the neck makes levels at strides 8, 16, 32 and 64.
Scores and boxes are trained with generalized focal loss (arXiv:2006.04388) and task-aligned
assignment (arXiv:2108.07755). Images can have any size.
"""

default_scope = 'mmdet'

model = dict(
    type='SingleStageDetector',
    data_preprocessor=dict(
        type='DetDataPreprocessor',
        mean=[123.675, 116.28, 103.53],
        std=[58.395, 57.12, 57.375],
        bgr_to_rgb=True,
        pad_size_divisor=32,
    ),
    neck=dict(type='mmeffvit.LightPAN', out_channels=96, coarser=True),
    bbox_head=dict(
        type='mmeffvit.LightHead',
        num_classes=80,
        in_channels=96,
        feat_channels=96,
        stacked_convs=1,
        reg_max=7,
        anchor_generator=dict(type='MlvlPointGenerator', offset=0.5, strides=[8, 16, 32, 64]),
        bbox_coder=dict(type='DistancePointBBoxCoder'),
        loss_cls=dict(type='QualityFocalLoss', use_sigmoid=True, beta=2.0, loss_weight=1.0),
        loss_bbox=dict(type='GIoULoss', loss_weight=2.0),
        loss_dfl=dict(type='DistributionFocalLoss', loss_weight=0.25),
    ),
    train_cfg=dict(
        assigner=dict(type='mmeffvit.PointTaskAlignedAssigner', topk=13),
        allowed_border=-1,
        pos_weight=-1,
        debug=False,
    ),
    test_cfg=dict(
        nms_pre=300,  # per level
        min_bbox_size=0,
        score_thr=0.025,
        nms=dict(type='nms', iou_threshold=0.6),
        max_per_img=100,
    ),
)

visualizer = dict(type='DetLocalVisualizer', vis_backends=[dict(type='LocalVisBackend')])
