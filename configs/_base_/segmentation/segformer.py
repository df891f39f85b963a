"""The light decoder of SegFormer (arXiv:2105.15203) with 128 channels, without its backbone.

A leaf adds it, with maps at strides 4 to 32, and their channels. Every map is projected to 128
channels and resized to the finest, where all are fused; SegFormer's own decoders have 256 and more.
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
        type='SegformerHead',
        in_index=[0, 1, 2, 3],
        channels=128,
        num_classes=150,
        dropout_ratio=0.1,
        norm_cfg=dict(type='BN'),
        align_corners=False,
        loss_decode=dict(type='CrossEntropyLoss', loss_weight=1.0),
    ),
    test_cfg=dict(mode='whole'),
)

visualizer = dict(type='SegLocalVisualizer', vis_backends=[dict(type='LocalVisBackend')])
tta_model = dict(type='SegTTAModel')
