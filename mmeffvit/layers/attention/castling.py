"""Linear-angular attention of Castling-ViT, compared with Mobile-Attention (ICML 2024)."""

import math

import torch
from torch import Tensor, nn

from .additive import unit_norm
from .heads import HeadMixer, split_heads

KERNEL = 9  # tokens that the convolution of the values sees
THRESHOLD = 0.02  # smaller weights of the auxiliary softmax are masked


class CastlingAttention(HeadMixer):
    """Linear-angular attention of arXiv:2211.10526, as in the authors' code.

    With ``q = q / |q|`` and ``k = k / |k|`` in every head::

        x = v / 2 + q (k^T v) / pi
        y = x / |x| + conv(v)

    |.| is the L2 norm over the channels of a head, conv a depth-wise convolution along the tokens
    in row-major order, 9 wide, with one filter per head and without bias.

    Args:
        channels: M D, channels of the queries.
        head_channels: D, channels of q and of k in a head. The value may have another number.
        auxiliary: Whether masked softmax attention, ``softmax(q k^T / sqrt(D))`` without weights up
            to 0.02, is added to x in train mode, at a cost quadratic in H W; the authors drop it
            after training.

    Shape:
        query (B, M D, H, W), key (B, M D, H, W), value (B, C, H, W) -> (B, C, H, W), with M heads
        of D channels; at a cost linear in H W.

    Raises:
        ValueError: If ``head_channels`` is not positive, or the channels of the input are not
            divisible into heads.
    """

    def __init__(self, channels: int, head_channels: int = 64, *, auxiliary: bool = False) -> None:
        super().__init__(head_channels)
        self.auxiliary = auxiliary
        heads = channels // head_channels
        if heads * head_channels != channels:
            raise ValueError(f'{channels} channels are not divisible into heads of {head_channels}')
        self.conv = nn.Conv2d(
            heads, heads, (1, KERNEL), padding=(0, KERNEL // 2), groups=heads, bias=False
        )

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        # (B, M, D, N), (B, M, D, N) and (B, M, C / M, N)
        query, key, mixed = split_heads(query, key, value, self.head_channels)
        q, k = unit_norm(query, dim=2), unit_norm(key, dim=2)
        x = mixed / 2 + (mixed @ k.transpose(2, 3)) @ q / math.pi
        if self.auxiliary and self.training:
            x = x + self.masked(query, key, mixed)
        return (unit_norm(x, dim=2) + self.conv(mixed)).reshape(value.shape)

    def masked(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Softmax attention with only the larger weights: (B, M, C / M, N)."""
        weights = (query.transpose(2, 3) @ key * self.head_channels**-0.5).softmax(dim=-1)
        weights = torch.where(weights > THRESHOLD, weights, 0)
        return value @ weights.transpose(2, 3)

    def extra_repr(self) -> str:
        return f'head_channels={self.head_channels}, auxiliary={self.auxiliary}'
