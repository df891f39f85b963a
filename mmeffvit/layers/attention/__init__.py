"""One file per attention mechanism; each maps (B, C, H, W) to (B, C, H, W)."""

from .additive import EfficientAdditiveAttention
from .single_head import SingleHeadSelfAttention

__all__ = ['EfficientAdditiveAttention', 'SingleHeadSelfAttention']
