"""Heads and datasets that mmseg lacks; the only package that imports mmseg."""

from .datasets import PairedSegDataset
from .heads import SlimASPPHead, SlimPSPHead

__all__ = ['PairedSegDataset', 'SlimASPPHead', 'SlimPSPHead']
