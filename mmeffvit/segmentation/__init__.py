"""Segmentation heads that mmseg lacks; alone in importing mmseg."""

from .heads import SlimASPPHead, SlimPSPHead

__all__ = ['SlimASPPHead', 'SlimPSPHead']
