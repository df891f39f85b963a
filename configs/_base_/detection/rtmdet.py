"""RTMDet (arXiv:2212.07784) with the width of its tiny model, without its backbone.

A config adds it, with maps at strides 8, 16 and 32, and their channels. The neck upsamples maps by
2, so images are padded to a multiple of the coarsest stride. They are RGB, as the weights of our
backbones expect; RTMDet's own backbone has BGR inputs.
"""

default_scope = 'mmdet'

norm_cfg = dict(type='BN')
act_cfg = dict(type='SiLU', inplace=True)

model = dict(
    type='RTMDet',
    use_syncbn=False,  # every model sets it by `sync_bn` of the schedule
    data_preprocessor=dict(
        type='DetDataPreprocessor',
        mean=[123.675, 116.28, 103.53],
        std=[58.395, 57.12, 57.375],
        bgr_to_rgb=True,
        pad_size_divisor=32,
    ),
    neck=dict(
        type='CSPNeXtPAFPN',
        out_channels=96,
        num_csp_blocks=1,
        expand_ratio=0.5,
        norm_cfg=norm_cfg,
        act_cfg=act_cfg,
    ),
    bbox_head=dict(
        type='RTMDetSepBNHead',
        num_classes=80,
        in_channels=96,
        feat_channels=96,
        stacked_convs=2,
        share_conv=True,  # convolutions shared by all levels, with separate norms
        pred_kernel_size=1,
        exp_on_reg=False,
        with_objectness=False,
        anchor_generator=dict(type='MlvlPointGenerator', offset=0, strides=[8, 16, 32]),
        bbox_coder=dict(type='DistancePointBBoxCoder'),
        loss_cls=dict(type='QualityFocalLoss', use_sigmoid=True, beta=2.0, loss_weight=1.0),
        loss_bbox=dict(type='GIoULoss', loss_weight=2.0),
        norm_cfg=norm_cfg,
        act_cfg=act_cfg,
    ),
    train_cfg=dict(
        assigner=dict(type='DynamicSoftLabelAssigner', topk=13),
        allowed_border=-1,
        pos_weight=-1,
        debug=False,
    ),
    test_cfg=dict(  # for AP; applications use a higher score_thr, such as 0.3
        nms_pre=30_000,
        min_bbox_size=0,
        score_thr=0.001,
        nms=dict(type='nms', iou_threshold=0.65),
        max_per_img=300,
    ),
)

visualizer = dict(type='DetLocalVisualizer', vis_backends=[dict(type='LocalVisBackend')])
