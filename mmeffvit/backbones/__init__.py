"""Backbones for mmdet and mmseg, with declared channels and strides of their feature maps."""

from importlib import import_module
from pkgutil import iter_modules

from mmeffvit import registry

from .base import Backbone
from .deit import DeiT, DeiTMobiAtt
from .efficientformerv2 import EfficientFormerV2, EfficientFormerV2MobiAtt
from .mobilevitv2 import MobileViTv2
from .pvtv2 import PVTv2, PVTv2MobiAtt
from .shvit import SHViT
from .swiftformer import SwiftFormer

__all__ = [
    'Backbone',
    'DeiT',
    'DeiTMobiAtt',
    'EfficientFormerV2',
    'EfficientFormerV2MobiAtt',
    'MobileViTv2',
    'PVTv2',
    'PVTv2MobiAtt',
    'SHViT',
    'SwiftFormer',
    'families',
]

for _module in iter_modules(__path__):  # so that a new family needs no edit here
    import_module(f'{__name__}.{_module.name}')


def families() -> dict[str, type[Backbone]]:
    """The registered backbones that have a variant table, by name."""
    known = registry.families().items()
    return {name: cls for name, cls in known if issubclass(cls, Backbone)}
