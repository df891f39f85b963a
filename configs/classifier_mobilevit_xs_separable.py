"""MobileViT-XS with separable self-attention in place of its own, 300 epochs on ImageNet-1k.

The claim of arXiv:2206.02680, table 1, in the same network: its rows are MobileViT-S and
MobileViTv2-1.0, which differ in skip connections and fusion, too. The paper gives no recipe for it;
this one is MobileViTv2's: see classifier_mobilevitv2_200.py.
"""

_base_ = [
    '_base_/classification/classifier.py',
    '_base_/datasets/imagenet1k_cvnets.py',
    '_base_/schedules/adamw_cvnets_300.py',
    '_base_/runtime.py',
]

model = dict(
    data_preprocessor=dict(mean=[0.0, 0.0, 0.0], std=[255.0, 255.0, 255.0]),
    backbone=dict(type='mmeffvit.MobileViT', arch='xs', attention='separable'),
    head=dict(in_channels=384),
    train_cfg=dict(augments=[dict(type='Mixup', alpha=0.2), dict(type='CutMix', alpha=1.0)]),
)
