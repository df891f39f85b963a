"""Additive attention with the interaction of keys and values that SwiftFormer omits."""

from torch import Tensor, nn

from .additive import EfficientAdditiveAttention, unit_norm


class KeyValueAdditiveAttention(EfficientAdditiveAttention):
    """Efficient additive attention with keys and values, as in arXiv:2108.09084.

    ``y = W_f(W_p(h * v) + q)`` with ``v = W_v x``, ``p = g * k``, ``b = |p . w_k|`` and the global
    key ``h = sum_n(b_n p_n)``; q, k and g as in :class:`EfficientAdditiveAttention`. SwiftFormer
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
