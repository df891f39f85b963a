"""Multi-head attention among the tokens of a map, the baseline of Mobile-Attention (ICML 2024)."""

import torch.nn.functional as F
from torch import Tensor

from .heads import HeadMixer, count_heads, split_heads
from .reading import Locate, Reading, read_softmax


class TokenSoftmaxAttention(HeadMixer):
    """Multi-head attention of arXiv:1706.03762, equation 1 of Mobile-Attention.

    ``y = softmax(Q K^T / sqrt(D)) V`` among the tokens of every head. The scores are not stored
    where torch has a kernel for it: where queries and values have the same number of channels.

    Args:
        head_channels: D, channels of q and of k in a head. The value may have another number.

    Shape:
        query (B, M D, H', W'), key (B, M D, H, W), value (B, C, H, W) -> (B, C, H', W'), with M
        heads of D channels; at a cost quadratic in H W.

    Raises:
        ValueError: If ``head_channels`` is not positive, or the channels of the input are not
            divisible into heads.
    """

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        size = query.shape[2:]
        # strided queries and keys would make the kernel five times slower
        tokens = (
            m.transpose(2, 3).contiguous()
            for m in split_heads(query, key, value, self.head_channels)
        )
        mixed = F.scaled_dot_product_attention(*tokens)  # (B, M, N', C / M)
        return mixed.transpose(2, 3).flatten(1, 2).unflatten(2, size)

    def read_attention(self, inputs: tuple[Tensor, ...], locate: Locate) -> Reading:
        """Read ``softmax(Q K^T / sqrt(D))``: the row of the query point, or the mean of all."""
        query, key, value = inputs
        heads = count_heads(query, value, self.head_channels)
        return read_softmax('softmax', query, key, heads, locate)
