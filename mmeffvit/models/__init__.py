"""Backbones, a folder per paper, and the layers, necks and heads that mmdet and mmseg lack."""

from importlib import import_module
from pathlib import Path

from mmeffvit import registries

from .backbone import Backbone
from .deit.backbone import DeiT, DeiTMobiAtt
from .efficientformerv2.backbone import EfficientFormerV2, EfficientFormerV2MobiAtt
from .mobilevitv2.backbone import MobileViTv2
from .pvtv2.backbone import PVTv2, PVTv2MobiAtt
from .shvit.backbone import SHViT
from .swiftformer.backbone import SwiftFormer

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

for _file in sorted(Path(__file__).parent.glob('*/backbone.py')):  # a new family needs no edit here
    import_module(f'{__name__}.{_file.parent.name}.backbone')


def families() -> dict[str, type[Backbone]]:
    """The registered backbones that have a variant table, by name."""
    known = registries.families().items()
    return {name: cls for name, cls in known if issubclass(cls, Backbone)}
