"""SHViT-S3 with no attention, row 2 of table 6 of arXiv:2401.16456.

The recipe follows the authors' code: see classifier_shvit_s1.py.
"""

_base_ = './classifier_shvit_s3.py'

model = dict(backbone=dict(attention=dict(type='none')))
