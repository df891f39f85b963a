"""Backbones: feature maps at declared channels and strides, for mmdet or mmseg alike."""

from .base import Backbone
from .shvit import SHViT
from .swiftformer import SwiftFormer

__all__ = ['Backbone', 'SHViT', 'SwiftFormer']
