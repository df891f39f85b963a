"""SSDLite as the authors of MobileViTv2 build it (arXiv:2206.02680), without its backbone.

A config adds the backbone, with maps at strides 16 and 32, and their channels. The neck adds the
coarser levels. Images can have any size; the recipe uses 320 x 320.
"""

default_scope = 'mmdet'

model = dict(
    type='SingleStageDetector',
    data_preprocessor=dict(
        type='DetDataPreprocessor',
        mean=[0.0, 0.0, 0.0],
        std=[255.0, 255.0, 255.0],
        bgr_to_rgb=True,
        pad_size_divisor=1,
    ),
    neck=dict(type='mmeffvit.SSDLiteNeck', extra_channels=[256, 128, 128], pooled_channels=64),
    bbox_head=dict(
        type='mmeffvit.SSDLiteHead',
        num_classes=80,
        feat_channels=[512, 256, 256, 128, 128, 64],
        anchor_generator=dict(
            type='mmeffvit.SSDLiteAnchorGenerator',
            ratios=[[2, 3], [2, 3], [2, 3], [2, 3], [2, 3], [2]],
            size_range=[0.1, 1.05],
        ),
        bbox_coder=dict(
            type='DeltaXYWHBBoxCoder',
            target_means=[0.0, 0.0, 0.0, 0.0],
            target_stds=[0.1, 0.1, 0.2, 0.2],
        ),
    ),
    train_cfg=dict(
        assigner=dict(
            type='MaxIoUAssigner',
            pos_iou_thr=0.5,
            neg_iou_thr=0.5,
            min_pos_iou=0.0,  # every instance gets its best anchor, even with a low IoU
            gt_max_assign_all=False,
            ignore_iof_thr=-1,
        ),
        allowed_border=-1,
        pos_weight=-1,
        neg_pos_ratio=3,
        smoothl1_beta=1.0,
        debug=False,
    ),
    test_cfg=dict(
        score_thr=0.01,
        nms_pre=400,  # per class
        nms=dict(type='nms', iou_threshold=0.5),
        max_per_img=200,
    ),
)

visualizer = dict(type='DetLocalVisualizer', vis_backends=[dict(type='LocalVisBackend')])
