"""MobileViTv2-1.0 fine-tuned on ImageNet-1k at 384 x 384, 10 epochs, from the weights at 256 x 256.

The recipe follows the authors' code and the first column of table 10, which is of width 2.0: a
constant rate, cropped and flipped images.
"""

_base_ = [
    '_base_/classification/classifier.py',
    '_base_/datasets/imagenet1k_384.py',
    '_base_/schedules/sgd_cvnets_10.py',
    '_base_/runtime.py',
]

load_from = 'hf://timm/mobilevitv2_100.cvnets_in1k'
model = dict(
    data_preprocessor=dict(mean=[0.0, 0.0, 0.0], std=[255.0, 255.0, 255.0]),
    backbone=dict(type='mmeffvit.MobileViTv2', arch='100', out_indices=(4,)),
    head=dict(in_channels=512),
)
