"""Multi-head attention over a coarser map, the token mixer of PVTv2."""

import torch.nn.functional as F
from torch import Tensor, nn

from mmeffvit.models.layers.base_attention import Attention, check_heads
from mmeffvit.models.layers.conv import ChannelNorm
from mmeffvit.models.layers.head_outputs import HeadOutputs
from mmeffvit.models.layers.reading import Locate, Reading, read_softmax


class SpatialReductionAttention(Attention):
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
        check_heads(channels, num_heads)
        self.num_heads = num_heads
        self.query = nn.Conv2d(channels, channels, 1)
        self.key_value = nn.Conv2d(channels, 2 * channels, 1)
        self.proj = nn.Conv2d(channels, channels, 1)
        self.reduce, self.norm = nn.Identity(), nn.Identity()
        if reduction > 1:
            self.reduce = nn.Conv2d(channels, channels, reduction, reduction)
            self.norm = ChannelNorm(channels, eps=1e-5)

    def forward(self, x: Tensor) -> Tensor:
        heads = map(self.heads, (self.query(x), *self.keys_and_values(x)))
        mixed = F.scaled_dot_product_attention(*heads)  # (B, M, N, D)
        return self.proj(mixed.transpose(2, 3).reshape(x.shape))

    def keys_and_values(self, x: Tensor) -> tuple[Tensor, ...]:
        return self.key_value(self.norm(self.reduce(x))).chunk(2, dim=1)

    def heads(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, M, H W, D)."""
        return x.flatten(2).unflatten(1, (self.num_heads, -1)).transpose(2, 3)

    def read_attention(self, inputs: tuple[Tensor, ...], locate: Locate) -> Reading:
        """Read ``softmax(q k^T / sqrt(D))``: the row of the query point, or the mean of all."""
        (x,) = inputs
        key, _ = self.keys_and_values(x)
        return read_softmax('spatial_reduction', self.query(x), key, self.num_heads, locate)

    def head_outputs(self) -> HeadOutputs:
        return HeadOutputs(self.proj, lambda _: self.num_heads, incoming=True)
