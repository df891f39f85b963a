"""Classifiers that mmpretrain lacks; the only package that imports mmpretrain at import time."""

from mmeffvit.utils.optional import require

require('mmpretrain.models')  # with torchvision ahead of it

from .datasets import ImageNetV2  # noqa: E402
from .distillation import DistilledClassifier  # noqa: E402
from .heads import ClassifierHead  # noqa: E402
from .networks import EfficientFormer, MobileViT  # noqa: E402

__all__ = ['ClassifierHead', 'DistilledClassifier', 'EfficientFormer', 'ImageNetV2', 'MobileViT']
