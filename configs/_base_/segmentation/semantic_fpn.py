"""Semantic FPN (arXiv:1901.02446), without its backbone and its neck.

A leaf adds both; the neck gives four levels of 256 channels at strides 4 to 32.
"""

default_scope = 'mmseg'

model = dict(
    type='EncoderDecoder',
    data_preprocessor=dict(
        type='SegDataPreProcessor',
        mean=[123.675, 116.28, 103.53],
        std=[58.395, 57.12, 57.375],
        bgr_to_rgb=True,
        size=(512, 512),
        pad_val=0,
        seg_pad_val=255,
    ),
    decode_head=dict(
        type='FPNHead',
        in_channels=[256, 256, 256, 256],
        in_index=[0, 1, 2, 3],
        feature_strides=[4, 8, 16, 32],
        channels=128,
        num_classes=150,
        dropout_ratio=0.1,
        norm_cfg=dict(type='SyncBN'),  # plain batch norm in a single process
        align_corners=False,
        loss_decode=dict(type='CrossEntropyLoss', loss_weight=1.0),
    ),
    test_cfg=dict(mode='whole'),
)

visualizer = dict(type='SegLocalVisualizer', vis_backends=[dict(type='LocalVisBackend')])
tta_model = dict(type='SegTTAModel')
