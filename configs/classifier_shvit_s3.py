"""SHViT-S3 on ImageNet-1k, 300 epochs.

The recipe follows the authors' code: see classifier_shvit_s1.py.
"""

_base_ = './classifier_shvit_s1.py'

model = dict(backbone=dict(arch='s3'), head=dict(in_channels=448))
optim_wrapper = dict(optimizer=dict(weight_decay=0.035))
