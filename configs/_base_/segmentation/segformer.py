"""The light decoder of SegFormer (arXiv:2105.15203) with 128 channels, without its backbone.

A config adds it, with maps at strides 4 to 32, and their channels. Every map is projected to 128
channels, and all are fused at the size of the finest; SegFormer's own decoders have 256 and more.
"""

_base_ = './encoder_decoder.py'

model = dict(
    data_preprocessor=dict(size=(512, 512)),
    decode_head=dict(
        type='mmeffvit.SegformerHead',
        in_index=[0, 1, 2, 3],
        channels=128,
        num_classes=150,
        dropout_ratio=0.1,
        norm_cfg=dict(type='BN'),
        align_corners=False,
        loss_decode=dict(type='CrossEntropyLoss', loss_weight=1.0),
    ),
)
