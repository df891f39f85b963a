"""Semantic FPN (arXiv:1901.02446), without its backbone and its neck.

A config adds both; the neck gives four levels of 256 channels at strides 4 to 32.
"""

_base_ = './encoder_decoder.py'

model = dict(
    data_preprocessor=dict(size=(512, 512)),
    decode_head=dict(
        type='FPNHead',
        in_channels=[256, 256, 256, 256],
        in_index=[0, 1, 2, 3],
        feature_strides=[4, 8, 16, 32],
        channels=128,
        num_classes=150,
        dropout_ratio=0.1,
        norm_cfg=dict(type='SyncBN'),  # ordinary batch norm in a single process
        align_corners=False,
        loss_decode=dict(type='CrossEntropyLoss', loss_weight=1.0),
    ),
)
