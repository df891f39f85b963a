"""SHViT-S4 fine-tuned on ImageNet-1k at 384 x 384, from the weights at 256 x 256.

The authors' code has no recipe for it, and its weights are not released. The paper (section 3.1)
gives 30 epochs, a rate of 0.004 and a weight decay of 1e-8. Batch size, warm-up and
augmentation are not given; they are those at 256 x 256: see classifier_shvit_s1.py.
"""

_base_ = './classifier_shvit_s4.py'

load_from = 'hf://timm/shvit_s4.in1k'
train_cfg = dict(max_epochs=30)
optim_wrapper = dict(optimizer=dict(weight_decay=1e-8))
param_scheduler = [
    dict(type='LinearLR', start_factor=2.5e-4, by_epoch=True, begin=0, end=5),
    dict(type='CosineAnnealingLR', by_epoch=True, begin=5, end=30, T_max=25, eta_min=1e-5),
]
train_pipeline = [
    {{_base_.load}},
    dict(type='RandomResizedCrop', scale=384, backend='pillow', interpolation='bicubic'),
    dict(type='RandomFlip', prob=0.5, direction='horizontal'),
    {{_base_.augment}},
    {{_base_.erase}},
    dict(type='PackInputs'),
]
test_pipeline = [
    {{_base_.load}},
    dict(
        type='ResizeEdge',
        scale=438,
        edge='short',
        backend='pillow',
        interpolation='bicubic',
    ),
    dict(type='CenterCrop', crop_size=384),
    dict(type='PackInputs'),
]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=test_pipeline))
test_dataloader = val_dataloader
