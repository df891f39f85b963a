"""Heads and data sets that mmseg lacks; the only room that imports mmseg."""

from .datasets import PairedSegDataset
from .heads import SlimASPPHead, SlimPSPHead

__all__ = ['PairedSegDataset', 'SlimASPPHead', 'SlimPSPHead']
