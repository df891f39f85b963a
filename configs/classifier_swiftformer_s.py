"""SwiftFormer-S on ImageNet-1k, 300 epochs, with a teacher.

The recipe follows the authors' code: two classifiers, RegNetY-16GF as teacher, RandAugment, no
mixing of images. The rate is the code's, 0.002 at batch size 2048; the paper's text has 0.001.
"""

_base_ = [
    '_base_/classification/distilled.py',
    '_base_/datasets/imagenet1k.py',
    '_base_/schedules/adamw_agc_300.py',
    '_base_/runtime.py',
]

model = dict(
    backbone=dict(type='mmeffvit.SwiftFormer', arch='s', out_indices=(3,), output_norm=False),
    head=dict(in_channels=224),
)
