"""PSPNet (arXiv:1612.01105) as slim as behind MobileViTv2, without its backbone.

A leaf adds it with the channels of its last two maps; the auxiliary head sees the last but one.
"""

default_scope = 'mmseg'

model = dict(
    type='EncoderDecoder',
    data_preprocessor=dict(
        type='SegDataPreProcessor',
        mean=[123.675, 116.28, 103.53],
        std=[58.395, 57.12, 57.375],
        bgr_to_rgb=True,
        size_divisor=1,
        pad_val=0,
        seg_pad_val=255,
    ),
    decode_head=dict(
        type='mmeffvit.SlimPSPHead',
        in_index=-1,
        pool_sizes=(1, 2, 3, 6),
        channels=512,
        num_classes=150,
        dropout_ratio=0.1,
        norm_cfg=dict(type='BN'),
        align_corners=True,
        loss_decode=dict(type='CrossEntropyLoss', loss_weight=1.0, avg_non_ignore=True),
    ),
    auxiliary_head=dict(
        type='FCNHead',
        in_index=-2,
        num_convs=1,
        concat_input=False,
        num_classes=150,
        dropout_ratio=0.1,
        norm_cfg=dict(type='BN'),
        align_corners=True,
        loss_decode=dict(type='CrossEntropyLoss', loss_weight=0.4, avg_non_ignore=True),
    ),
    test_cfg=dict(mode='whole'),
)

visualizer = dict(type='SegLocalVisualizer', vis_backends=[dict(type='LocalVisBackend')])
tta_model = dict(type='SegTTAModel')
