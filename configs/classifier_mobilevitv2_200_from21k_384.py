"""MobileViTv2-2.0 from ImageNet-21k-P fine-tuned on ImageNet-1k at 384 x 384, 10 epochs.

The recipe is the third column of table 10: the constant rate of the first, with RandAugment,
CutMix, MixUp and random erasing. The authors' code only has a file without them.
"""

_base_ = [
    '_base_/classification/classifier.py',
    '_base_/datasets/imagenet1k_384.py',
    '_base_/schedules/sgd_cvnets_10.py',
    '_base_/runtime.py',
]

load_from = 'hf://timm/mobilevitv2_200.cvnets_in22k_ft_in1k'
model = dict(
    data_preprocessor=dict(mean=[0.0, 0.0, 0.0], std=[255.0, 255.0, 255.0]),
    backbone=dict(type='mmeffvit.MobileViTv2', arch='200', out_indices=(4,)),
    head=dict(in_channels=1024),
    train_cfg=dict(augments=[dict(type='Mixup', alpha=0.2), dict(type='CutMix', alpha=1.0)]),
)
train_pipeline = [
    {{_base_.load}},
    dict(type='RandomResizedCrop', scale=384, backend='pillow', interpolation='bicubic'),
    dict(type='RandomFlip', prob=0.5, direction='horizontal'),
    dict(type='NumpyToPIL', to_rgb=True),
    dict(type='torchvision/RandAugment'),
    dict(type='PILToNumpy', to_bgr=True),
    {{_base_.constant_erase}},
    dict(type='PackInputs'),
]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
