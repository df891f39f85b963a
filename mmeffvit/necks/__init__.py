"""Pyramids that the hosts lack."""

from .transposed_fpn import TransposedFPN

__all__ = ['TransposedFPN']
