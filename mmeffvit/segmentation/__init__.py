"""Segmentation heads that mmseg lacks; the only module that imports mmseg."""

from .heads import SlimASPPHead, SlimPSPHead

__all__ = ['SlimASPPHead', 'SlimPSPHead']
