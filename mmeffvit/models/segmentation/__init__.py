"""Heads and datasets that mmseg lacks; the only package that imports mmseg."""

from .datasets import PairedSegDataset
from .heads import SegformerHead, SlimASPPHead, SlimPSPHead

__all__ = ['PairedSegDataset', 'SegformerHead', 'SlimASPPHead', 'SlimPSPHead']
