"""Attention of EfficientFormerV2: talking-heads attention plus a convolution on the values.

The token mixer is a separate module, called with queries, keys and values as maps: the attention of
EfficientFormerV2 and Mobile-Attention are interchangeable.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmeffvit.models.layers.base_attention import Attention
from mmeffvit.models.layers.conv import ConvNorm
from mmeffvit.models.layers.folding import add_identity
from mmeffvit.models.layers.head_outputs import HeadOutputs
from mmeffvit.models.layers.head_projections import Units
from mmeffvit.models.layers.reading import Locate, Reading, over_queries, scores_of_heads

from .position_bias import PositionBias

# in float16, leaving room for the sum over heads
MAX_HALF_SCORE = torch.finfo(torch.float16).max / 32


class TalkingHeadsAttention(Attention):
    """Multi-head attention with position bias that mixes scores and weights across the heads.

    ``y = M_2(softmax(M_1(q k^T / sqrt(D) + bias))) v`` with M_1 and M_2 acting across the heads
    (talking-heads attention, arXiv:2003.02436), following the official code of EfficientFormerV2.

    Args:
        num_heads: Number of heads that the channels are divided into, in order.
        table_size: Rows and columns of the key map that the bias table is built for.
        stride: Rows (columns) of keys per row (column) of queries.
        mix_heads: If False, M_1 and M_2 are the identity.
        resize_matrix: How biases are resized to other sizes, see :class:`PositionBias`.

    Shape:
        query (B, heads * D, H', W'), key (B, heads * D, H, W), value (B, C, H, W) ->
        (B, C, H', W'), with H' = ceil(H / stride) and W' = ceil(W / stride); at a cost quadratic in
        H W.
    """

    def __init__(
        self,
        num_heads: int,
        table_size: tuple[int, int],
        *,
        stride: int = 1,
        mix_heads: bool = True,
        resize_matrix: bool = False,
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.stride = stride
        self.position_bias = PositionBias(num_heads, table_size, resize_matrix=resize_matrix)
        self.mix_scores = nn.Conv2d(num_heads, num_heads, 1) if mix_heads else nn.Identity()
        self.mix_weights = nn.Conv2d(num_heads, num_heads, 1) if mix_heads else nn.Identity()

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        bias = self.position_bias(tuple(key.shape[2:]), self.stride)
        size = query.shape[2:]
        # (B, heads, channels of a head, N' or N)
        query, key, value = (
            m.flatten(2).unflatten(1, (self.num_heads, -1)) for m in (query, key, value)
        )
        query = query * query.shape[2] ** -0.5
        scores = query.transpose(2, 3) @ key  # (B, heads, N', N)
        if scores.dtype == torch.float16:
            # large scores overflow: infinities would become NaN when heads are mixed
            scores = scores.clamp(-MAX_HALF_SCORE, MAX_HALF_SCORE)
        weights = self.mix_weights(self.mix_scores(scores + bias).softmax(dim=-1))
        mixed = value @ weights.transpose(2, 3)  # (B, heads, C / heads, N')
        return mixed.flatten(1, 2).unflatten(2, size)

    def read_attention(self, inputs: tuple[Tensor, ...], locate: Locate) -> Reading:
        """Read every head: the row of the query point, or the mean of all rows.

        'attention' is ``softmax(M_1(q k^T / sqrt(D) + bias))`` and sums to 1 over the keys; 'mixed'
        is M_2 of that, which multiplies the values: with mixed heads it is signed and has no fixed
        sum.
        """
        query, key, _ = inputs
        size = tuple(key.shape[2:])
        bias = self.position_bias(size, self.stride)  # (heads, queries, keys)
        if locate is not None:
            index = locate(tuple(query.shape[2:]))
            bias = bias[:, index : index + 1]
        scores = scores_of_heads(query, key, self.num_heads, locate)  # (1, heads, N', N)
        attention = self.mix_scores(scores + bias).softmax(dim=-1)
        mixed = self.mix_weights(attention)
        arrays = {
            name: weights.mean(dim=2).unflatten(2, size)[0]
            for name, weights in (('attention', attention), ('mixed', mixed))
        }
        maps = {f'head {i}': attended for i, attended in enumerate(arrays['attention'])}
        title = f'attention by head, {over_queries(locate)}'
        return Reading('heads', title, maps, arrays, queried=True, by_head='attention')

    def head_outputs(self) -> HeadOutputs:
        return HeadOutputs(self, lambda _: self.num_heads)


def prunable_units(layer: 'LocalGlobalAttention | DownsamplingAttention') -> Units:
    modules = (layer.query, layer.key, layer.value, layer.value_local)
    return Units(tuple((module, 1) for module in modules), layer.project, layer.mixer)


class LocalGlobalAttention(nn.Module):
    """Global token mixing plus a depth-wise convolution on the values.

    Args:
        channels: C, channels of the input and of the output.
        key_channels: Channels of queries and of keys, of all heads together.
        value_channels: Channels of values, of all heads together.
        mixer: Token mixer: (query, key, value) as maps -> a map of ``value_channels``.
        stride: Mix tokens at a lower resolution and upsample bilinearly.
        dilation: Dilation of the convolutions.

    Shape:
        (B, C, H, W) -> (B, C, H, W).
    """

    def __init__(
        self,
        channels: int,
        key_channels: int,
        value_channels: int,
        mixer: Attention,
        stride: int = 1,
        dilation: int = 1,
    ) -> None:
        super().__init__()
        spatial = dict(kernel_size=3, dilation=dilation, bias=True)
        self.stride = stride
        self.reduce = (
            ConvNorm(channels, channels, stride=stride, groups=channels, **spatial)
            if stride > 1
            else nn.Identity()
        )
        self.query = ConvNorm(channels, key_channels, bias=True)
        self.key = ConvNorm(channels, key_channels, bias=True)
        self.value = ConvNorm(channels, value_channels, bias=True)
        self.value_local = ConvNorm(
            value_channels, value_channels, groups=value_channels, **spatial
        )
        self.mixer = mixer
        self.act = nn.GELU()
        self.project = ConvNorm(value_channels, channels, bias=True)

    def forward(self, x: Tensor) -> Tensor:
        reduced = self.reduce(x)
        value = self.value(reduced)
        mixed = self.mixer(self.query(reduced), self.key(reduced), value)
        mixed = mixed + self.value_local(value)
        if self.stride > 1:
            # to the exact size: a side may be odd
            mixed = F.interpolate(mixed, x.shape[2:], mode='bilinear')
        return self.project(self.act(mixed))

    prunable_units = prunable_units


class StridedResidualConv(nn.Conv2d):
    """A strided depth-wise convolution, added to those pixels of its input that it is centered on.

    Shape:
        (B, C, H, W) -> (B, C, ceil(H / stride), ceil(W / stride)).
    """

    def __init__(self, channels: int, stride: int, dilation: int) -> None:
        spatial = dict(padding=dilation, dilation=dilation, groups=channels)
        super().__init__(channels, channels, 3, stride, **spatial)

    def forward(self, x: Tensor) -> Tensor:
        rows, columns = self.stride
        return super().forward(x) + x[:, :, ::rows, ::columns]

    def folded(self) -> nn.Module:
        return add_identity(self)


class DownsamplingAttention(nn.Module):
    """Local-global attention from queries at half resolution to keys at full resolution.

    With ``stride`` 1 queries are at full resolution, too; every second one gives the same output.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the output.
        key_channels: Channels of queries and of keys, of all heads together.
        value_channels: Channels of values, of all heads together.
        mixer: Token mixer: (query, key, value) as maps -> a map of ``value_channels``.
        key_stride: 2 subsamples keys and values to the grid of the queries.
        stride: Input pixels per output pixel.
        dilation: Dilation of the convolutions.

    Shape:
        (B, in_channels, H, W) -> (B, out_channels, ceil(H / stride), ceil(W / stride)).
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        key_channels: int,
        value_channels: int,
        mixer: Attention,
        key_stride: int = 1,
        stride: int = 2,
        dilation: int = 1,
    ) -> None:
        super().__init__()
        self.key_stride = key_stride
        self.query_local = StridedResidualConv(in_channels, stride, dilation)
        self.query = ConvNorm(in_channels, key_channels, bias=True)
        self.key = ConvNorm(in_channels, key_channels, bias=True)
        self.value = ConvNorm(in_channels, value_channels, bias=True)
        spatial = dict(stride=stride, dilation=dilation, groups=value_channels, bias=True)
        self.value_local = ConvNorm(value_channels, value_channels, 3, **spatial)
        self.mixer = mixer
        self.act = nn.GELU()
        self.project = ConvNorm(value_channels, out_channels, bias=True)

    def forward(self, x: Tensor) -> Tensor:
        query = self.query(self.query_local(x))
        key, value = self.key(x), self.value(x)
        if self.key_stride > 1:
            # a slice is equivalent, but would fix the size of an exported graph
            tokens = tuple(F.avg_pool2d(m, 1, self.key_stride) for m in (key, value))
        else:
            tokens = (key, value)
        mixed = self.mixer(query, *tokens) + self.value_local(value)
        return self.project(self.act(mixed))

    prunable_units = prunable_units
