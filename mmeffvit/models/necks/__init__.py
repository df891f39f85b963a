"""Feature pyramids that mmdet and mmseg lack."""

from .light_pan import LightPAN
from .simple_feature_pyramid import SimpleFeaturePyramid
from .transposed_fpn import TransposedFPN

__all__ = ['LightPAN', 'SimpleFeaturePyramid', 'TransposedFPN']
