"""SHViT-S3 on ImageNet-1k with a teacher, 300 epochs: table 3 of arXiv:2401.16456.

It has DeiT's hard distillation from RegNetY-16GF, and no other change.
"""

_base_ = './classifier_shvit_s3.py'

model = dict(
    type='mmeffvit.DistilledClassifier',
    head=dict(distilled=True, distillation='hard', alpha=0.5),
    teacher=dict(type='TimmClassifier', model_name='regnety_160'),
    teacher_ckpt='hf://timm/regnety_160.deit_in1k',
)
