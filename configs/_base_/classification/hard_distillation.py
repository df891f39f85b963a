"""DeiT's hard distillation from RegNetY-16GF, added to the model of a classifier."""

hard_distillation = dict(
    type='mmeffvit.DistilledClassifier',
    head=dict(distilled=True, distillation='hard', alpha=0.5),
    teacher=dict(type='TimmClassifier', model_name='regnety_160'),
    teacher_ckpt='hf://timm/regnety_160.deit_in1k',
)
