"""Feature pyramids that mmdet and mmseg lack."""

from .transposed_fpn import TransposedFPN

__all__ = ['TransposedFPN']
