"""What detection needs and mmdet lacks; alone in importing mmdet."""

from .tta import InstanceTTAModel

__all__ = ['InstanceTTAModel']
