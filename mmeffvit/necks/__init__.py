"""Feature pyramids that mmdet and mmseg lack."""

from .simple_feature_pyramid import SimpleFeaturePyramid
from .transposed_fpn import TransposedFPN

__all__ = ['SimpleFeaturePyramid', 'TransposedFPN']
