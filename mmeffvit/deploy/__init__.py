"""From a trained model to a fast one."""

from .fuse import fuse

__all__ = ['fuse']
