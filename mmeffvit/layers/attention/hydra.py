"""Hydra attention: as many heads as channels (arXiv:2209.07484)."""

from torch import Tensor, nn

from .additive import unit_norm
from .heads import split_heads
from .reading import Locate, Reading, over_queries, rows_of_queries


class HydraAttention(nn.Module):
    """Hydra attention of arXiv:2209.07484: linear attention with one query channel per head.

    ``y = Phi(q) * sum_n(Phi(k_n) * v_n)``, n over the tokens, channel by channel. ``Phi(x) = x /
    |x|_2`` with the norm over all channels of a token, and there is no denominator: this is not
    linear attention with heads of one channel; kernel and denominator belong to a head.

    Shape:
        query (B, M, H', W'), key (B, M, H, W), value (B, C, H, W) -> (B, C, H', W'), with M heads
        of C / M value channels, 1 in the paper; at a cost linear in H W.

    Raises:
        ValueError: If the values' channels are not a multiple of the queries' channels.
    """

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
