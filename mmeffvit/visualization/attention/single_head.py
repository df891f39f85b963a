"""Attention of the single head of SHViT (arXiv:2401.16456)."""

from torch import Tensor

from mmeffvit.layers.attention import SingleHeadSelfAttention

from .grid import Canvas
from .reading import Reading, over_queries, rows_of_queries


def read_single_head(
    layer: SingleHeadSelfAttention, inputs: tuple[Tensor, ...], canvas: Canvas
) -> Reading:
    """Read ``softmax(q k^T / sqrt(D))``: the row of the query point, or the mean of all rows."""
    (x,) = inputs
    projected = layer.qkv(layer.norm(x[:, : layer.sizes[0]]))
    query, key, _ = projected.split(layer.qkv_sizes, dim=1)
    scores = rows_of_queries(query, canvas) @ key.flatten(2) * layer.scale  # (1, N', N)
    attention = scores.softmax(dim=-1).mean(dim=1).view(key.shape[2:])
    title = f'single-head attention, {over_queries(canvas)}'
    return Reading('single_head', title, {'': attention}, {'attention': attention}, queried=True)
