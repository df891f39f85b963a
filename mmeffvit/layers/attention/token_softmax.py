"""Multi-head attention among the tokens of a map, the baseline of Mobile-Attention (ICML 2024)."""

import torch.nn.functional as F
from torch import Tensor, nn

from mmeffvit.layers.head_outputs import HeadOutputs

from .heads import check_head_channels, count_heads, mixed_heads, split_heads
from .reading import Locate, Reading, over_queries, rows_of_queries


class TokenSoftmaxAttention(nn.Module):
    """Multi-head attention of arXiv:1706.03762, equation 1 of Mobile-Attention.

    ``y = softmax(Q K^T / sqrt(D)) V`` among the tokens of every head. The scores are not stored
    where torch has a kernel for it: where queries and values have the same number of channels.

    Args:
        head_channels: D, channels of q and of k in a head. The value may have another number.

    Shape:
        query (B, M D, H', W'), key (B, M D, H, W), value (B, C, H, W) -> (B, C, H', W'), with M
        heads of D channels; at a cost quadratic in H W.

    Raises:
        ValueError: If ``head_channels`` is not positive, or the channels of the input are not
            divisible into heads.
    """

    def __init__(self, head_channels: int = 4) -> None:
        super().__init__()
        self.head_channels = check_head_channels(head_channels)

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        size = query.shape[2:]
        # strided queries and keys would make the kernel five times slower
        tokens = (
            m.transpose(2, 3).contiguous()
            for m in split_heads(query, key, value, self.head_channels)
        )
        mixed = F.scaled_dot_product_attention(*tokens)  # (B, M, N', C / M)
        return mixed.transpose(2, 3).flatten(1, 2).unflatten(2, size)

    def read_attention(self, inputs: tuple[Tensor, ...], locate: Locate) -> Reading:
        """Read ``softmax(Q K^T / sqrt(D))``: the row of the query point, or the mean of all."""
        query, key, value = inputs
        heads = count_heads(query, value, self.head_channels)
        rows = rows_of_queries(query, locate).unflatten(2, (heads, -1)).transpose(1, 2)
        columns = key.flatten(2).unflatten(1, (heads, -1))  # (1, M, D, N)
        weights = (rows @ columns * self.head_channels**-0.5).softmax(dim=-1)
        attention = weights.mean(dim=2)[0].unflatten(1, key.shape[2:])  # (M, H, W)
        title = f'mean over {heads} heads, {over_queries(locate)}'
        maps = {'': attention.mean(dim=0)}
        arrays = {'attention': attention}
        return Reading('softmax', title, maps, arrays, queried=True, by_head='attention')

    def head_outputs(self) -> HeadOutputs:
        return mixed_heads(self)

    def extra_repr(self) -> str:
        return f'head_channels={self.head_channels}'
