"""Attention of the heads of EfficientFormerV2 (arXiv:2212.08059)."""

from torch import Tensor

from mmeffvit.layers.attention import TalkingHeadAttention

from .grid import Canvas
from .reading import Reading, over_queries, rows_of_queries


def read_talking_heads(
    layer: TalkingHeadAttention, inputs: tuple[Tensor, ...], canvas: Canvas
) -> Reading:
    """Read every head: the row of the query point, or the mean of all rows.

    'attention' is ``softmax(M_1(q k^T / sqrt(D) + bias))`` and sums to 1 over the keys; 'mixed' is
    M_2 of that, which multiplies the values: signed where the heads talk, and of any sum.
    """
    query, key, _ = inputs
    size = tuple(key.shape[2:])
    bias = layer.position_bias(size, layer.stride)  # (heads, queries, keys)
    index = canvas.query_index(tuple(query.shape[2:]))
    if index is not None:
        bias = bias[:, index : index + 1]
    rows = rows_of_queries(query, canvas).unflatten(2, (layer.num_heads, -1)).transpose(1, 2)
    columns = key.flatten(2).unflatten(1, (layer.num_heads, -1))
    scores = rows @ columns * rows.shape[3] ** -0.5  # (1, heads, N', N)
    attention = layer.biased(scores, bias).softmax(dim=-1)
    mixed = layer.mix_weights(attention)
    arrays = {
        name: weights.mean(dim=2).unflatten(2, size)[0]
        for name, weights in (('attention', attention), ('mixed', mixed))
    }
    maps = {f'head {i}': attended for i, attended in enumerate(arrays['attention'])}
    return Reading(
        'heads', f'attention by head, {over_queries(canvas)}', maps, arrays, queried=True
    )
