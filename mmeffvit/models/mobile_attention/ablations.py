"""Token mixers that the paper compares with Mobile-Attention (ICML 2024)."""

import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmeffvit.models.layers.base_attention import Attention
from mmeffvit.models.layers.head_outputs import HeadOutputs
from mmeffvit.models.layers.norms import unit_norm
from mmeffvit.models.layers.reading import (
    Locate,
    Reading,
    over_queries,
    read_softmax,
    rows_of_queries,
)
from mmeffvit.models.layers.self_attention import attend

from .attention import MobileAttention, smallest_divisor
from .heads import HeadMixer, count_heads, split_heads


class TokenSoftmaxAttention(HeadMixer):
    """Multi-head attention of arXiv:1706.03762, equation 1 of Mobile-Attention.

    ``y = softmax(Q K^T / sqrt(D)) V`` among the tokens of every head. The scores are not stored
    where torch has a kernel for it: where queries and values have the same number of channels.

    Shape:
        query (B, M D, H', W'), key (B, M D, H, W), value (B, C, H, W) -> (B, C, H', W'), with M
        heads of D channels; at a cost quadratic in H W.
    """

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        mixed = attend(*split_heads(query, key, value, self.head_channels))
        return mixed.flatten(1, 2).unflatten(2, query.shape[2:])

    def read_attention(self, inputs: tuple[Tensor, ...], locate: Locate) -> Reading:
        """Read ``softmax(Q K^T / sqrt(D))``: the row of the query point, or the mean of all."""
        query, key, value = inputs
        heads = count_heads(query, value, self.head_channels)
        return read_softmax('softmax', query, key, heads, locate)


class TokenLinearAttention(MobileAttention):
    """Linear attention of arXiv:2006.16236 in heads, equation 2 of Mobile-Attention.

    ``y = Q (K^T V) / Z`` with ``Q = Phi(q)`` and ``K = Phi(k)`` in every head: Mobile-Attention
    with ``competition=False``, and therefore with its Phi.

    Args:
        channels, value_channels, num_heads, head_channels: See :class:`HeadMixer`.
        form: Phi and Z, see :class:`MobileAttention`.

    Shape:
        Like :class:`HeadMixer`, at a cost linear in H W.
    """

    def __init__(
        self,
        channels: int,
        value_channels: int,
        num_heads: int,
        *,
        head_channels: int = 4,
        form: str | Mapping[str, Any] = 'default',
    ) -> None:
        own = dict(head_channels=head_channels, form=form, competition=False)
        super().__init__(channels, value_channels, num_heads, **own)


class HeadSoftmaxAttention(HeadMixer):
    """Softmax attention among the heads of one token: equation 3 of Mobile-Attention.

    ``R_t^h = sum_i(softmax_i(q_t^h . k_t^i / sqrt(D)) v_t^i)``, i over the M heads of token t: the
    "vanilla design" of table 2. An output depends only on its own token.

    The paper does not say how R is combined with the mixing of tokens. With ``mix_tokens``, R
    replaces the values in linear attention (equation 2), as ``softmax(O') V`` does in equation 7.

    Args:
        channels, value_channels, num_heads, head_channels: See :class:`HeadMixer`.
        mix_tokens: Whether linear attention among the tokens follows, with the sigmoid as Phi.

    Shape:
        Like :class:`HeadMixer`, at a cost linear in H W and quadratic in M.
    """

    def __init__(
        self,
        channels: int,
        value_channels: int,
        num_heads: int,
        *,
        head_channels: int = 4,
        mix_tokens: bool = False,
    ) -> None:
        sizes, own = (channels, value_channels, num_heads), dict(head_channels=head_channels)
        super().__init__(*sizes, **own)
        self.tokens = TokenLinearAttention(*sizes, **own) if mix_tokens else None

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        heads = split_heads(query, key, value, self.head_channels)
        mixed = self.among_heads(*heads).reshape(value.shape)
        return mixed if self.tokens is None else self.tokens(query, key, mixed)

    def among_heads(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Queries and keys (B, M, D, N), values (B, M, C / M, N) -> (B, M, C / M, N)."""
        tokens = (m.permute(0, 3, 1, 2).contiguous() for m in (query, key, value))
        return F.scaled_dot_product_attention(*tokens).permute(0, 2, 3, 1)


class HeadLinearAttention(HeadSoftmaxAttention):
    """Linear attention among the heads of one token: equation 4 of Mobile-Attention.

    ``R_t^h = Q_t^h sum_i(K_t^i^T v_t^i) / (Q_t^h . sum_j(K_t^j))`` with ``Q =
    sigmoid(q)`` and ``K = sigmoid(k)``, i and j over the heads of token t. No row of the paper's
    tables uses it.

    Shape:
        Like :class:`HeadMixer`, at a cost linear in H W and in M.
    """

    def among_heads(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        query, key = query.sigmoid(), key.sigmoid()
        shares = (query * key.sum(dim=1, keepdim=True)).sum(dim=2)  # (B, M, N)
        query, key, value = (m.permute(0, 3, 1, 2) for m in (query, key, value))
        context = key.transpose(2, 3) @ value  # (B, N, D, C / M)
        mixed = (query @ context).permute(0, 2, 3, 1)
        return mixed / shares.clamp_min(smallest_divisor(shares.dtype)).unsqueeze(2)


UNITS = ('channel', 'head')


def count_units(unit: str, num_channels: int, num_heads: int) -> int:
    """The number of channels or of heads."""
    if unit not in UNITS:
        raise ValueError(f'unit is {unit!r}; choose one of {UNITS}')
    return num_channels if unit == 'channel' else num_heads


class SqueezeExciteAttention(TokenLinearAttention):
    """Squeeze and excitation (arXiv:1709.01507) in place of Mobile-Attention's competition.

    ``y = s * Q (K^T V) / Z`` with ``s = sigmoid(W_2 relu(W_1 z))``, z the means over the tokens.
    The paper (table 2, SE) does not give its position and sizes. As channel attention, it follows
    the mixing, with one weight per channel; optionally one per head, like the competition.

    Args:
        channels, value_channels, num_heads, head_channels: See :class:`HeadMixer`.
        unit: 'channel', or 'head' for one weight per head, of the mean over its channels.
        reduction: Units per hidden channel between W_1 and W_2; at least one is kept.
        form: Phi and Z, see :class:`MobileAttention`.

    Shape:
        Like :class:`HeadMixer`, at a cost linear in H W.
    """

    def __init__(
        self,
        channels: int,
        value_channels: int,
        num_heads: int,
        *,
        head_channels: int = 4,
        unit: str = 'channel',
        reduction: int = 16,
        form: str | Mapping[str, Any] = 'default',
    ) -> None:
        own = dict(head_channels=head_channels, form=form)
        super().__init__(channels, value_channels, num_heads, **own)
        if reduction < 1:
            raise ValueError(f'reduction is {reduction}; it must be at least 1')
        units = count_units(unit, value_channels, channels // head_channels)
        hidden = max(units // reduction, 1)
        self.squeeze = nn.Linear(units, hidden)
        self.excite = nn.Linear(hidden, units)

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        mixed = super().forward(query, key, value)
        units = mixed.unflatten(1, (self.squeeze.in_features, -1))  # (B, units, C / units, H, W)
        weights = self.excite(F.relu(self.squeeze(units.mean(dim=(2, 3, 4))))).sigmoid()
        return (units * weights[:, :, None, None, None]).flatten(1, 2)


class GatedAttention(TokenLinearAttention):
    """A gated linear unit (arXiv:2002.05202) in place of Mobile-Attention's competition.

    ``y = sigmoid(W q + b) * Q (K^T V) / Z``: a gate per channel and token, at the cost N C^2 that
    table 2 states. The paper does not specify the input of the gates; here it is the queries, a
    linear map of the layer's input. Optionally there is one gate per head, like the competition.

    Args:
        channels, value_channels, num_heads, head_channels: See :class:`HeadMixer`.
        unit: 'channel', or 'head' for one gate per head.
        form: Phi and Z, see :class:`MobileAttention`.

    Shape:
        Like :class:`HeadMixer`, at a cost linear in H W.
    """

    def __init__(
        self,
        channels: int,
        value_channels: int,
        num_heads: int,
        *,
        head_channels: int = 4,
        unit: str = 'channel',
        form: str | Mapping[str, Any] = 'default',
    ) -> None:
        own = dict(head_channels=head_channels, form=form)
        super().__init__(channels, value_channels, num_heads, **own)
        units = count_units(unit, value_channels, channels // head_channels)
        self.gate = nn.Conv2d(channels, units, 1)

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        mixed = super().forward(query, key, value)
        gates = self.gate(query).sigmoid().unsqueeze(2)  # (B, units, 1, H, W)
        return (mixed.unflatten(1, (gates.shape[1], -1)) * gates).flatten(1, 2)


class HydraAttention(Attention):
    """Hydra attention of arXiv:2209.07484: linear attention with one query channel per head.

    ``y = Phi(q) * sum_n(Phi(k_n) * v_n)``, n over the tokens, channel by channel. ``Phi(x) = x /
    |x|_2`` with the norm over all channels of a token, and there is no denominator: this is not
    linear attention with heads of one channel; kernel and denominator belong to a head.

    Args:
        channels, value_channels, num_heads: See :class:`HeadMixer`; it has one head per channel.

    Shape:
        query (B, M, H', W'), key (B, M, H, W), value (B, C, H, W) -> (B, C, H', W'), with M heads
        of C / M value channels, 1 in the paper; at a cost linear in H W.

    Raises:
        ValueError: If the values' channels are not a multiple of the queries' channels.
    """

    def __init__(self, channels: int, value_channels: int, num_heads: int) -> None:
        super().__init__()

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        size = query.shape[2:]
        query, key = unit_norm(query, dim=1), unit_norm(key, dim=1)
        # (B, M, 1, N), (B, M, 1, N) and (B, M, C / M, N)
        query, key, value = split_heads(query, key, value, 1)
        context = value @ key.transpose(2, 3)  # (B, M, C / M, 1)
        return (context * query).flatten(1, 2).unflatten(2, size)

    def read_attention(self, inputs: tuple[Tensor, ...], locate: Locate) -> Reading:
        """Read the weight of every value in the output, ``Phi(q_i) Phi(k_n)`` in each head.

        Figure 5 of Mobile-Attention shows such a map without a definition. Here it is summed over
        the heads, which gives the cosine between query and key.
        """
        query, key, _ = inputs
        rows = unit_norm(rows_of_queries(query, locate), dim=2)  # (1, N', M)
        keys = unit_norm(key, dim=1).flatten(2)  # (1, M, N)
        weights = (rows.mean(dim=1).unsqueeze(2) * keys)[0].unflatten(1, key.shape[2:])
        title = f'sum over {len(weights)} heads, {over_queries(locate)}'
        maps = {'': weights.sum(dim=0)}
        arrays = {'weights': weights}
        return Reading('hydra', title, maps, arrays, queried=True, by_head='weights')

    def head_outputs(self) -> HeadOutputs:
        return HeadOutputs(self, lambda inputs: inputs[0].shape[1])


KERNEL = 9  # tokens that the convolution of the values sees
THRESHOLD = 0.02  # smaller weights of the auxiliary softmax are masked


class CastlingAttention(HeadMixer):
    """Linear-angular attention of arXiv:2211.10526, following the authors' code.

    With ``q = q / |q|`` and ``k = k / |k|`` in every head::

        x = v / 2 + q (k^T v) / pi
        y = x / |x| + conv(v)

    |.| is the L2 norm over the channels of a head, conv a depth-wise convolution along the tokens
    in row-major order, 9 wide, with one filter per head and without bias.

    Args:
        channels, value_channels, num_heads, head_channels: See :class:`HeadMixer`.
        auxiliary: Whether masked softmax attention, ``softmax(q k^T / sqrt(D))`` without weights up
            to 0.02, is added to x in train mode, at a cost quadratic in H W; the authors drop it
            after training.

    Shape:
        Like :class:`HeadMixer`, at a cost linear in H W.
    """

    def __init__(
        self,
        channels: int,
        value_channels: int,
        num_heads: int,
        *,
        head_channels: int | None = None,
        auxiliary: bool = False,
    ) -> None:
        super().__init__(channels, value_channels, num_heads, head_channels=head_channels)
        self.auxiliary = auxiliary
        heads = channels // self.head_channels
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


def extents(size: tuple[int, int], sides: tuple[int, int]) -> tuple[int, int]:
    """Rows and columns of tiles that cover a map of ``size``."""
    # of positive numbers: ONNX rounds the quotient of a negative one towards zero
    rows, columns = ((n + side - 1) // side for n, side in zip(size, sides, strict=True))
    return rows, columns


def tiles(maps: tuple[Tensor, ...], heads: int, sides: tuple[int, int]) -> tuple[Tensor, ...]:
    """Cut maps into tiles; where they do not divide them, the last row or column is repeated.

    Shape:
        (B, M D, H, W) -> (B, M, T, S, D) each: T tiles of S pixels, in row-major order.
    """
    x = torch.cat(maps, dim=1)
    counts = extents(x.shape[2:], sides)
    for axis, count, side in zip((2, 3), counts, sides, strict=True):
        # an index: a graph for any size would fix whether padding or a slice changes the size
        index = torch.arange(count * side, device=x.device).clamp(max=x.shape[axis] - 1)
        x = x.index_select(axis, index)
    x = x.reshape(*x.shape[:2], counts[0], sides[0], counts[1], sides[1]).permute(0, 2, 4, 3, 5, 1)
    parts = x.flatten(3, 4).flatten(1, 2).split([m.shape[1] for m in maps], dim=3)  # (B, T, S, C)
    return tuple(m.unflatten(3, (heads, -1)).permute(0, 3, 1, 2, 4) for m in parts)


def own_pixels(x: Tensor, sides: tuple[int, int]) -> Tensor:
    """Which pixels of the tiles of a map are not repeated: (T, S), true or false."""
    rows, columns = (
        (torch.arange(count * side, device=x.device) < n).view(count, side)
        for n, count, side in zip(x.shape[2:], extents(x.shape[2:], sides), sides, strict=True)
    )
    both = rows[:, None, :, None] & columns[None, :, None, :]  # (rows, columns, a, b)
    return both.flatten(2).flatten(0, 1)


def untile(x: Tensor, sides: tuple[int, int], size: tuple[int, int]) -> Tensor:
    """The inverse of :func:`tiles` for one map: (B, M, T, S, D) -> (B, M D, H, W)."""
    x = x.unflatten(2, extents(size, sides)).unflatten(4, sides)  # (B, M, rows, columns, a, b, D)
    x = x.permute(0, 1, 6, 2, 4, 3, 5).flatten(5, 6).flatten(3, 4).flatten(1, 2)
    for axis, side in zip((2, 3), size, strict=True):
        x = x.index_select(axis, torch.arange(side, device=x.device))  # a slice, as above
    return x


class ControlVariateAttention(HeadMixer):
    """EVA of arXiv:2302.04542, efficient attention via control variates, like the authors' code.

    A query of window E attends to the tokens m of E and to summaries of all chunks P_c of the map::

        y = (sum_m(exp(q . k_m) v_m) + sum_c(exp(q . k_c) b_c)) / Z
        b_c = sum_j(xi_j v_j) / sum_j(xi_j),  xi_j = exp(w_c . k_j - |k_j|^2 / 2),  j over P_c
        k_c = norm(W_k mean_j(k_j)),  q_c = norm(W_q mean_j(q_j)),  w_c = (q_c + k_c) / 2 + noise

    Z is the sum of all weights, and every exponent is divided by ``sqrt(D)``. The noise is standard
    normal in train mode and zero in eval mode. Windows and chunks at the end of rows and columns
    are smaller where they do not divide the map.

    Args:
        channels, value_channels, num_heads, head_channels: See :class:`HeadMixer`.
        window: Side of a window, in tokens.
        chunks: Rows and columns of chunks at most: their side grows with the map, so that the cost
            stays linear.

    Shape:
        Like :class:`HeadMixer`, at a cost linear in H W.
    """

    def __init__(
        self,
        channels: int,
        value_channels: int,
        num_heads: int,
        *,
        head_channels: int | None = None,
        window: int = 7,
        chunks: int = 7,
    ) -> None:
        super().__init__(channels, value_channels, num_heads, head_channels=head_channels)
        if min(window, chunks) < 1:
            raise ValueError(f'window is {window} and chunks is {chunks}; both must be at least 1')
        self.window = window
        self.chunks = chunks
        self.query_summary, self.key_summary = (
            nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width))
            for width in (self.head_channels,) * 2
        )

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        size = tuple(query.shape[2:])
        heads, scale = count_heads(query, value, self.head_channels), self.head_channels**-0.5
        chunk_keys, chunk_values = self.summarize(query, key, value)  # (B, M, 1, chunks, ...)
        sides = (self.window, self.window)
        repeated = ~own_pixels(query, sides)[:, None]  # (T, 1, S)
        query, key, value = tiles((query, key, value), heads, sides)
        near = (query @ key.transpose(3, 4) * scale).masked_fill(repeated, -torch.inf)
        far = query @ chunk_keys.transpose(3, 4) * scale  # (B, M, T, S, chunks)
        weights = torch.cat([near, far], dim=-1).softmax(dim=-1)
        near, far = weights.split((self.window**2, far.shape[-1]), dim=-1)
        return untile(near @ value + far @ chunk_values, sides, size)

    def summarize(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """k_c and b_c of the chunks: (B, M, 1, chunks, D) and (B, M, 1, chunks, C / M)."""
        heads = count_heads(query, value, self.head_channels)
        sides = extents(tuple(query.shape[2:]), (self.chunks, self.chunks))
        own = own_pixels(query, sides)[:, :, None]  # (chunks, S, 1)
        query, key, value = tiles((query, key, value), heads, sides)
        shares = own.to(query.dtype) / own.sum(dim=1, keepdim=True)
        queries = self.query_summary((query * shares).sum(dim=3))
        keys = self.key_summary((key * shares).sum(dim=3))  # (B, M, chunks, D)
        proposal = (queries + keys) / 2
        if self.training:
            proposal = proposal + torch.randn_like(proposal)
        logits = key @ proposal.unsqueeze(4) - key.square().sum(dim=4, keepdim=True) / 2
        logits = (logits * self.head_channels**-0.5).masked_fill(~own, -torch.inf)
        values = logits.softmax(dim=3).transpose(3, 4) @ value  # (B, M, chunks, 1, C / M)
        return keys.unsqueeze(2), values.transpose(2, 3)

    def extra_repr(self) -> str:
        return f'head_channels={self.head_channels}, window={self.window}, chunks={self.chunks}'


def inner(x: Tensor, vector: Tensor) -> Tensor:
    """Inner product over the channels, positive: (B, M, D, N), (B, M, D, 1) -> (B, M, 1, N)."""
    # the sigmoid of a large negative number is zero in float16
    return (x * vector).sum(dim=2, keepdim=True).clamp_min(torch.finfo(x.dtype).tiny)


class FlowAttention(HeadMixer):
    """Flow-Attention of arXiv:2202.06258: the flows of Mobile-Attention, over tokens.

    With ``Q = sigmoid(q)`` and ``K = sigmoid(k)`` in every head, n over the N' queries and m over
    the N keys::

        I  = Q . sum_m(K)         O  = K . sum_n(Q)         what a sink receives and a source gives
        I' = Q . sum_m(K / O)     O' = K . sum_n(Q / I)     the same, the other side normalized
        y  = sigmoid(I' N' / N) * Q (K^T (N softmax_m(O') * V)) / I

    Just as the authors' code does, O' is clipped to [-1, 1], its softmax is multiplied by N and I'
    by N' / N; the code's epsilon of 1e-6 is omitted, since sigmoids are positive.

    Shape:
        query (B, M D, H', W'), key (B, M D, H, W), value (B, C, H, W) -> (B, C, H', W'), with M
        heads of D channels; at a cost linear in H W.
    """

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        size = query.shape[2:]
        query, key, value = split_heads(query, key, value, self.head_channels)
        query, key = query.sigmoid(), key.sigmoid()
        # means over tokens instead of sums: the same ratios, without overflow in half precision
        incoming = inner(query, key.mean(dim=-1, keepdim=True))  # I / N
        outgoing = inner(key, query.mean(dim=-1, keepdim=True))  # O / N'
        received = inner(query, (key / outgoing).mean(dim=-1, keepdim=True))  # I' N' / N
        share = query.shape[3] / key.shape[3]
        given = inner(key, (query / incoming).mean(dim=-1, keepdim=True)) * share  # O'
        weights = given.clamp(-1, 1).softmax(dim=-1)  # already divided by N, as I is
        context = (value * weights) @ key.transpose(2, 3)  # (B, M, C / M, D)
        mixed = context @ (query / incoming) * received.sigmoid()
        return mixed.flatten(1, 2).unflatten(2, size)
