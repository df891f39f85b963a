"""Two classifiers, of which the second learns the teacher's first class: DeiT's hard distillation.

In tests the scores of both are averaged. The teacher is RegNetY-16GF in timm's implementation.
"""

_base_ = './classifier.py'

model = dict(
    type='mmeffvit.DistilledClassifier',
    head=dict(norm='map', distilled=True, distillation='hard', alpha=0.5),
    teacher=dict(type='TimmClassifier', model_name='regnety_160'),
    teacher_ckpt='hf://timm/regnety_160.deit_in1k',
)
