"""Backbones: feature maps at declared channels and strides, for mmdet or mmseg alike."""

from .base import Backbone
from .efficientformerv2 import EfficientFormerV2
from .mobilevitv2 import MobileViTv2
from .shvit import SHViT
from .swiftformer import SwiftFormer

__all__ = ['Backbone', 'EfficientFormerV2', 'MobileViTv2', 'SHViT', 'SwiftFormer']
