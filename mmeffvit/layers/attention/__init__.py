"""Attention layers on feature maps (B, C, H, W), one file per mechanism."""

from .additive import EfficientAdditiveAttention
from .local_global import DownsamplingAttention, LocalGlobalAttention, TalkingHeadsAttention
from .mobile import MobileAttention
from .multi_head import MultiHeadAttention
from .separable import KeylessSeparableSelfAttention, SeparableSelfAttention
from .single_head import SingleHeadSelfAttention
from .spatial_reduction import SpatialReductionAttention

__all__ = [
    'DownsamplingAttention',
    'EfficientAdditiveAttention',
    'KeylessSeparableSelfAttention',
    'LocalGlobalAttention',
    'MobileAttention',
    'MultiHeadAttention',
    'SeparableSelfAttention',
    'SingleHeadSelfAttention',
    'SpatialReductionAttention',
    'TalkingHeadsAttention',
]
