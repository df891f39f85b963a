"""Heads and datasets that mmseg lacks; the only package that imports mmseg."""

from .class_weights import ClassWeights
from .datasets import PairedSegDataset
from .heads import SegformerHead, SlimASPPHead, SlimPSPHead

__all__ = ['ClassWeights', 'PairedSegDataset', 'SegformerHead', 'SlimASPPHead', 'SlimPSPHead']
