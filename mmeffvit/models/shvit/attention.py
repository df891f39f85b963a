"""Single-head self-attention on part of the channels, the token mixer of SHViT."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmeffvit.models.layers.base_attention import Attention
from mmeffvit.models.layers.conv import ConvNorm
from mmeffvit.models.layers.folding import absorb_group_norm
from mmeffvit.models.layers.reading import Locate, Reading, over_queries, rows_of_queries


class SingleHeadSelfAttention(Attention):
    """Single-head attention on the first channels; remaining channels bypass it: arXiv:2401.16456.

    ``y = W_o(relu([softmax(q k^T / sqrt(D)) v, x_2]))`` with ``q, k, v = W(norm(x_1))``, x_1 the
    attended and x_2 the remaining channels. Like the official code, this has a ReLU before W_o
    and a batch norm after both projections, which equations 1 to 3 omit; the norm of x_1 is over
    all its channels and positions together (one group).

    Args:
        channels: C, channels of the input and of the output.
        attended: Channels of x_1, in [1, C].
        key_channels: D, channels of q and of k.

    Shape:
        (B, C, H, W) -> (B, C, H, W), at a cost quadratic in H W.
    """

    def __init__(self, channels: int, attended: int, key_channels: int = 16) -> None:
        super().__init__()
        self.sizes = (attended, channels - attended)
        self.qkv_sizes = (key_channels, key_channels, attended)
        self.scale = key_channels**-0.5
        self.norm = nn.GroupNorm(1, attended)
        self.qkv = ConvNorm(attended, sum(self.qkv_sizes))
        self.proj = ConvNorm(channels, channels, norm_init=0.0)

    def folded(self) -> 'SingleHeadSelfAttention':
        self.norm = absorb_group_norm(self.norm, self.qkv)
        return self

    def forward(self, x: Tensor) -> Tensor:
        attended, remaining = x.split(self.sizes, dim=1)
        attended = attended.clone()  # torch's group norm rejects views under vmap
        query, key, value = self.qkv(self.norm(attended)).flatten(2).split(self.qkv_sizes, dim=1)
        mixed = self.mix(query, key, value)  # (B, attended, N)
        joined = torch.cat([mixed.view_as(attended), remaining], dim=1)
        return self.proj(F.relu(joined))

    def mix(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Attention of queries and keys (..., D, N) to values (..., C, N)."""
        scores = query.transpose(-2, -1) @ key * self.scale  # (..., N, N), queries first
        return value @ scores.softmax(dim=-1).transpose(-2, -1)

    def read_attention(self, inputs: tuple[Tensor, ...], locate: Locate) -> Reading:
        """Read ``softmax(q k^T / sqrt(D))``: the row of the query point, or the mean of all."""
        (x,) = inputs
        projected = self.qkv(self.norm(x[:, : self.sizes[0]]))
        query, key, _ = projected.split(self.qkv_sizes, dim=1)
        scores = rows_of_queries(query, locate) @ key.flatten(2) * self.scale  # (1, N', N)
        attention = scores.softmax(dim=-1).mean(dim=1).view(key.shape[2:])
        title = f'single-head attention, {over_queries(locate)}'
        arrays = {'attention': attention}
        return Reading('single_head', title, {'': attention}, arrays, queried=True)
