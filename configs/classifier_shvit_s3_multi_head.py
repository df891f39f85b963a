"""SHViT-S3 with MHSA in place of the single head, row 1 of table 6 of arXiv:2401.16456.

The layer is ViT's on all channels; the paper gives no number of heads; here it is 8. The recipe is
of the authors' code: see classifier_shvit_s1.py.
"""

_base_ = './classifier_shvit_s3.py'

model = dict(backbone=dict(attention=dict(type='multi_head', num_heads=8)))
