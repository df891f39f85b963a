"""PSPNet (arXiv:1612.01105) with the slim head for MobileViTv2, without its backbone.

A config adds it with the channels of its last two maps; the auxiliary head uses the last but one.
"""

_base_ = './encoder_decoder.py'

model = dict(
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
)
