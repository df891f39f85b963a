"""Attention that SwiftFormer is compared with, in its figure 2."""

import torch
from torch import Tensor, nn

from mmeffvit.models.layers.norms import unit_norm
from mmeffvit.models.layers.self_attention import SelfAttention

from .attention import EfficientAdditiveAttention


class KeyValueAdditiveAttention(EfficientAdditiveAttention):
    """Efficient additive attention with keys and values, following arXiv:2108.09084.

    ``y = W_f(W_p(h * v) + q)`` with ``v = W_v x``, ``p = g * k``, ``b = |p . w_k|`` and the global
    key ``h = sum_n(b_n p_n)``; for q, k and g see :class:`EfficientAdditiveAttention`. SwiftFormer
    (arXiv:2303.15446) replaces the interaction of keys and values by the projection W_p.
    Norms are SwiftFormer's, where arXiv:2108.09084 has a softmax over the positions.

    Args:
        channels: C, channels of the input and of the output.

    Shape:
        (B, C, H, W) -> (B, C, H, W).
    """

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self.value = nn.Conv2d(channels, channels, 1)
        self.key_score = nn.Conv2d(channels, 1, 1, bias=False)  # w_k

    def forward(self, x: Tensor) -> Tensor:
        query = unit_norm(self.query(x), dim=1)
        global_query = self.pool(query, self.score(query))
        key = global_query * unit_norm(self.key(x), dim=1)
        global_key = self.pool(key, self.key_score(key))
        return self.out(self.proj(global_key * self.value(x)) + query)


AXES = ('keys', 'queries')


class TransposeAttention(SelfAttention):
    """Transpose self-attention, equation 2 of SwiftFormer (arXiv:2303.15446).

    ``y = W_o (v softmax(q^T k / sqrt(D)))`` in every head, with ``q, k, v = W x``: the scores are
    (D, D), and v (N, D) is multiplied from the right. The paper does not specify the axis of
    the softmax; the default is 'keys', the last one.

    Args:
        channels: C, channels of the input and of the output.
        num_heads: Number of heads, each with D = C / num_heads channels; the equation has one.
        softmax_over: 'keys', so that the rows of the scores sum to 1, or 'queries', the columns.

    Shape:
        (B, C, H, W) -> (B, C, H, W), at a cost linear in H W and quadratic in D.

    Raises:
        ValueError: If the channels are not divisible by the number of heads, or ``softmax_over`` is
            unknown.
    """

    def __init__(self, channels: int, num_heads: int = 1, *, softmax_over: str = 'keys') -> None:
        super().__init__(channels, num_heads)
        if softmax_over not in AXES:
            raise ValueError(f'softmax_over is {softmax_over!r}; choose one of {AXES}')
        self.axis = 3 if softmax_over == 'keys' else 2

    def mix(self, query: Tensor, key: Tensor, value: Tensor, size: tuple[int, int]) -> Tensor:
        """Attention between the channels of every head: (B, M, D, N) -> (B, M, D, N)."""
        # the scores are a sum over the tokens: scaled before it, they fit half precision longer
        scores = (query * query.shape[2] ** -0.5) @ key.transpose(2, 3)  # (B, M, D, D)
        return scores.softmax(dim=self.axis).transpose(2, 3) @ value


class CrossCovarianceAttention(TransposeAttention):
    """Cross-covariance attention of arXiv:2106.09681, the origin of equation 2 of SwiftFormer.

    SwiftFormer cites EdgeNeXt (arXiv:2206.10589) for that equation, which uses this layer.

    ``y = W_o softmax(t q^T k) v`` in every head, v (D, N), with a learned temperature t for each
    head. q and k are divided by the L2 norm of each channel over the positions, so that ``q^T k``
    does not grow with their number.

    Args:
        channels: C, channels of the input and of the output.
        num_heads: Number of heads, each with D = C / num_heads channels.

    Shape:
        (B, C, H, W) -> (B, C, H, W), at a cost linear in H W and quadratic in D.

    Raises:
        ValueError: If the channels are not divisible by the number of heads.
    """

    def __init__(self, channels: int, num_heads: int = 4) -> None:
        super().__init__(channels, num_heads)
        self.temperature = nn.Parameter(torch.ones(num_heads, 1, 1))

    def mix(self, query: Tensor, key: Tensor, value: Tensor, size: tuple[int, int]) -> Tensor:
        scores = unit_norm(query, dim=3) @ unit_norm(key, dim=3).transpose(2, 3)  # (B, M, D, D)
        return (scores * self.temperature).softmax(dim=-1) @ value
