"""MobileViTv2-2.0 from ImageNet-21k-P fine-tuned on ImageNet-1k, 50 epochs at 256 x 256.

The recipe is the second column of table 10, including gradient clipping at 10, which the authors'
code lacks. It starts from the last checkpoint of classifier_mobilevitv2_200_imagenet21k.py, whose
classifier is replaced.
"""

_base_ = [
    '_base_/classification/classifier.py',
    '_base_/datasets/imagenet1k_cvnets.py',
    '_base_/schedules/sgd_cvnets_10.py',
    '_base_/runtime.py',
]

load_from = 'work_dirs/classifier_mobilevitv2_200_imagenet21k/epoch_80.pth'
model = dict(
    data_preprocessor=dict(mean=[0.0, 0.0, 0.0], std=[255.0, 255.0, 255.0]),
    backbone=dict(type='mmeffvit.MobileViTv2', arch='200', out_indices=(4,)),
    head=dict(in_channels=1024),
    train_cfg=dict(augments=[dict(type='Mixup', alpha=0.2), dict(type='CutMix', alpha=1.0)]),
)
train_cfg = dict(max_epochs=50)
optim_wrapper = dict(optimizer=dict(lr=1e-2))
param_scheduler = [
    dict(type='CosineAnnealingLR', by_epoch=True, begin=0, end=50, T_max=50, eta_min_ratio=0.1),
]
custom_hooks = [
    dict(
        type='mmeffvit.EMAHook',
        ema_type='ExponentialMovingAverage',
        momentum=5e-4,
        update_buffers=True,
    ),
]
auto_scale_lr = dict(base_batch_size=256)
