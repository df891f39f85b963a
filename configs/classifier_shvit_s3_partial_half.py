"""SHViT-S3 with attention to half of the channels, row 5 of table 6 of arXiv:2401.16456.

The recipe follows the authors' code: see classifier_shvit_s1.py.
"""

_base_ = './classifier_shvit_s3.py'

model = dict(backbone=dict(partial_ratio=1 / 2))
