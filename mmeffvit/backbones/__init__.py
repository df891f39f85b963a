"""Backbones: feature maps at declared channels and strides, for mmdet or mmseg alike."""

from .base import Backbone
from .swiftformer import SwiftFormer

__all__ = ['Backbone', 'SwiftFormer']
