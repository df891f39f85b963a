"""Semantic FPN, EfficientFormerV2-L with Mobile-Attention, 40K iterations on ADE20K.

32 images a step. Paper: 46.0 mIoU, after 80K iterations as printed; this is the length of the
rows it is compared with. Ours: not trained yet.
"""

_base_ = './semfpn_efficientformerv2_l_ade20k.py'

model = dict(backbone=dict(attention='mobile'))
