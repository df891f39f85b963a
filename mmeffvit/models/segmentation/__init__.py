"""Heads and datasets that mmseg lacks; of the models, only these import mmseg."""

from .class_weighted_loss import ClassWeightedCrossEntropy
from .datasets import PairedSegDataset
from .heads import SegformerHead, SlimASPPHead, SlimPSPHead

__all__ = [
    'ClassWeightedCrossEntropy',
    'PairedSegDataset',
    'SegformerHead',
    'SlimASPPHead',
    'SlimPSPHead',
]
