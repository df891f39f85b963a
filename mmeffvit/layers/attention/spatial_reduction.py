"""Multi-head attention over a coarser map, the token mixer of PVTv2."""

import torch.nn.functional as F
from torch import Tensor, nn

from mmeffvit.layers.conv import ChannelNorm
from mmeffvit.layers.head_outputs import HeadOutputs

from .reading import Locate, Reading, read_softmax, rows_of_queries


class SpatialReductionAttention(nn.Module):
    """Multi-head attention to a map of lower resolution: spatial reduction, arXiv:2102.12122.

    ``y = W_o(softmax(q k^T / sqrt(D)) v)``, q of every token of x, k and v of the tokens of
    ``norm(R(x))``, where the convolution R has a kernel and a stride of ``reduction``: rows and
    columns at the end that fill no kernel are not attended to.

    Args:
        channels: C, channels of the input and of the output.
        num_heads: Number of heads, each with D = C / num_heads channels.
        reduction: Stride of R, in tokens; 1 for attention to x itself.

    Shape:
        (B, C, H, W) -> (B, C, H, W), H and W of at least ``reduction``; the cost is quadratic in
        H W, divided by ``reduction**2``.

    Raises:
        ValueError: If the channels are not divisible by the number of heads.
    """

    def __init__(self, channels: int, num_heads: int, reduction: int = 1) -> None:
        super().__init__()
        if channels % num_heads:
            raise ValueError(f'{channels} channels are not divisible into {num_heads} heads')
        self.num_heads = num_heads
        self.query = nn.Conv2d(channels, channels, 1)
        self.key_value = nn.Conv2d(channels, 2 * channels, 1)
        self.proj = nn.Conv2d(channels, channels, 1)
        self.reduce, self.norm = nn.Identity(), nn.Identity()
        if reduction > 1:
            self.reduce = nn.Conv2d(channels, channels, reduction, reduction)
            self.norm = ChannelNorm(channels, eps=1e-5)

    def forward(self, x: Tensor) -> Tensor:
        query = self.heads(self.query(x))  # (B, M, N, D)
        key, value = self.keys_and_values(x)  # (B, M, N', D)
        mixed = F.scaled_dot_product_attention(query, key, value)
        return self.proj(mixed.transpose(2, 3).reshape(x.shape))

    def keys_and_values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        key, value = self.key_value(self.norm(self.reduce(x))).chunk(2, dim=1)
        return self.heads(key), self.heads(value)

    def heads(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, M, H W, D)."""
        return x.flatten(2).unflatten(1, (self.num_heads, -1)).transpose(2, 3)

    def read_attention(self, inputs: tuple[Tensor, ...], locate: Locate) -> Reading:
        """Read ``softmax(q k^T / sqrt(D))``: the row of the query point, or the mean of all."""
        (x,) = inputs
        reduced = self.norm(self.reduce(x))
        key = self.heads(self.key_value(reduced).chunk(2, dim=1)[0])
        query = rows_of_queries(self.query(x), locate).unflatten(2, (self.num_heads, -1))
        rows, columns, scale = query.transpose(1, 2), key.transpose(2, 3), key.shape[3] ** -0.5
        size = reduced.shape[2:]
        return read_softmax('spatial_reduction', rows, columns, scale, size, locate)

    def head_outputs(self) -> HeadOutputs:
        return HeadOutputs(self.proj, lambda _: self.num_heads, incoming=True)
