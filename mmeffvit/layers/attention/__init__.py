"""One file per attention mechanism, on maps (B, C, H, W)."""

from .additive import EfficientAdditiveAttention
from .local_global import DownsamplingAttention, LocalGlobalAttention, TalkingHeadsAttention
from .mobile import MobileAttention
from .separable import KeylessSeparableSelfAttention, SeparableSelfAttention
from .single_head import SingleHeadSelfAttention

__all__ = [
    'DownsamplingAttention',
    'EfficientAdditiveAttention',
    'KeylessSeparableSelfAttention',
    'LocalGlobalAttention',
    'MobileAttention',
    'SeparableSelfAttention',
    'SingleHeadSelfAttention',
    'TalkingHeadsAttention',
]
