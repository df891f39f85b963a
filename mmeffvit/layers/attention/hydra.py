"""Hydra attention: as many heads as channels (arXiv:2209.07484)."""

from torch import Tensor, nn

from .additive import unit_norm
from .heads import split_heads


class HydraAttention(nn.Module):
    """Hydra attention of arXiv:2209.07484: linear attention with one query channel per head.

    ``y = Phi(q) * sum_n(Phi(k_n) * v_n)``, n over the tokens, channel by channel. ``Phi(x) = x /
    |x|_2`` with the norm over all channels of a token, and there is no denominator: this is not
    linear attention with heads of one channel, whose kernel and denominator are those of a head.

    Shape:
        query (B, M, H', W'), key (B, M, H, W), value (B, C, H, W) -> (B, C, H', W'), with M heads
        of C / M value channels, 1 in the paper; at a cost linear in H W.

    Raises:
        ValueError: If the channels of the values are not a multiple of those of the queries.
    """

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        size = query.shape[2:]
        query, key = unit_norm(query, dim=1), unit_norm(key, dim=1)
        # (B, M, 1, N), (B, M, 1, N) and (B, M, C / M, N)
        query, key, value = split_heads(query, key, value, 1)
        context = value @ key.transpose(2, 3)  # (B, M, C / M, 1)
        return (context * query).flatten(1, 2).unflatten(2, size)
