"""Transpose attention: attention between channels instead of tokens (arXiv:2106.09681)."""

import torch
from torch import Tensor, nn

from .additive import unit_norm


class TransposeAttention(nn.Module):
    """Attention between channels, a mixer that SwiftFormer (arXiv:2303.15446) compares with.

    ``y = W_o softmax(t q^T k) v`` in every head, with ``q, k, v = W x`` and a learned temperature t
    for each head: the cross-covariance attention of arXiv:2106.09681. There q and k are divided by
    the L2 norm of each channel over the positions, so that ``q^T k`` (D, D) does not grow with
    their number.

    Args:
        channels: C, channels of the input and of the output.
        num_heads: Number of heads, each with D = C / num_heads channels.

    Shape:
        (B, C, H, W) -> (B, C, H, W), at a cost linear in H W and quadratic in D.

    Raises:
        ValueError: If the channels are not divisible by the number of heads.
    """

    def __init__(self, channels: int, num_heads: int = 4) -> None:
        super().__init__()
        if channels % num_heads:
            raise ValueError(f'{channels} channels are not divisible into {num_heads} heads')
        self.num_heads = num_heads
        self.qkv = nn.Conv2d(channels, 3 * channels, 1)
        self.temperature = nn.Parameter(torch.ones(num_heads, 1, 1))
        self.out = nn.Conv2d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        # (B, M, D, N) each
        query, key, value = self.qkv(x).flatten(2).unflatten(1, (3, self.num_heads, -1)).unbind(1)
        scores = unit_norm(query, dim=3) @ unit_norm(key, dim=3).transpose(2, 3)  # (B, M, D, D)
        mixed = (scores * self.temperature).softmax(dim=-1) @ value
        return self.out(mixed.flatten(1, 2).unflatten(2, x.shape[2:]))
