"""Multi-head self-attention, the token mixer of plain vision transformers such as DeiT."""

import torch.nn.functional as F
from torch import Tensor, nn

from mmeffvit.models.layers.base_attention import Attention, check_heads
from mmeffvit.models.layers.head_outputs import HeadOutputs
from mmeffvit.models.layers.reading import Locate, Reading, over_queries


class MultiHeadAttention(Attention):
    """Multi-head self-attention of the cells of a map and of class tokens: arXiv:1706.03762.

    ``y = W_o(softmax(q k^T / sqrt(D)) v)`` with ``q, k, v = W(x)`` for each of M heads. The rows of
    W holds all queries, all keys and all values, each head by head.

    Args:
        channels: C, channels of the input and of the output.
        num_heads: M, each with D = C / M channels.

    Shape:
        x (B, T + H W, C), size (H, W) -> (B, T + H W, C), with T class tokens before the cells in
        row-major order; at a cost quadratic in H W.

    Raises:
        ValueError: If the channels are not divisible by the number of heads.
    """

    def __init__(self, channels: int, num_heads: int) -> None:
        super().__init__()
        check_heads(channels, num_heads)
        self.num_heads = num_heads
        self.qkv = nn.Linear(channels, 3 * channels)
        self.proj = nn.Linear(channels, channels)

    def forward(self, x: Tensor, size: tuple[int, int]) -> Tensor:
        mixed = F.scaled_dot_product_attention(*self.heads(x))  # (B, M, T + H W, D)
        return self.proj(mixed.transpose(1, 2).flatten(2))

    def heads(self, x: Tensor) -> tuple[Tensor, ...]:
        """Queries, keys and values, each (B, M, T + H W, D)."""
        return self.qkv(x).unflatten(2, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4).unbind()

    def read_attention(self, inputs: tuple[Tensor, ...], locate: Locate) -> Reading:
        """Read ``softmax(q k^T / sqrt(D))``: the row of the query point, or the mean of all cells.

        'attention' is of the cells, 'class_tokens' the mean over class tokens, if there are
        any. Maps omit the weights of class tokens, so they sum to less than 1.
        """
        x, size = inputs
        weights = self.weights(x)[0]
        first = x.shape[1] - size[0] * size[1]
        tokens, cells = weights[:, :first], weights[:, first:]
        rows = slice(None) if locate is None else slice(locate(size), locate(size) + 1)
        arrays = {'attention': cells[:, rows]} | ({'class_tokens': tokens} if first else {})
        for name, chosen in arrays.items():
            arrays[name] = chosen.mean(dim=1)[:, first:].unflatten(1, size)  # (M, H, W)
        title = f'mean over {self.num_heads} heads, {over_queries(locate)}'
        maps = {'': arrays['attention'].mean(dim=0)}
        return Reading('multi_head', title, maps, arrays, queried=True, by_head='attention')

    def attention_maps(self, x: Tensor, size: tuple[int, int]) -> Tensor:
        """Includes the attention maps of class tokens."""
        return self.weights(x).flatten(2)

    def weights(self, x: Tensor) -> Tensor:
        """``softmax(q k^T / sqrt(D))`` of all tokens: (B, M, T + H W, T + H W)."""
        query, key, _ = self.heads(x)
        return (query @ key.transpose(2, 3) * key.shape[3] ** -0.5).softmax(dim=-1)

    def head_outputs(self) -> HeadOutputs:
        return HeadOutputs(self.proj, lambda _: self.num_heads, axis=2, incoming=True)
