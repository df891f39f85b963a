"""Competition weights of Mobile-Attention beside linear attention without them (ICML 2024)."""

from torch import Tensor

from mmeffvit.layers.attention import MobileAttention

from .grid import Canvas
from .reading import Reading, over_queries, rows_of_queries


def read_mobile(layer: MobileAttention, inputs: tuple[Tensor, ...], canvas: Canvas) -> Reading:
    """Weights of the tokens with and without competition, in multiples of an equal share.

    'competition' is ``N softmax_n(O')``. 'linear' is how much of a token's value plain linear
    attention takes, ``N Q_i . K_n / sum_m(Q_i . K_m)`` for query i. 'competed' is their product,
    what the layer takes. The first two have mean 1 over the tokens in each head, so one colour
    scale holds for all; they are drawn summed over the M heads, where M is an equal share.
    """
    query, key, value = inputs
    heads, size = layer.num_heads(query, value), key.shape[2:]
    rows = rows_of_queries(query.sigmoid(), canvas).transpose(1, 2)  # (1, M D, N')
    rows = rows.unflatten(1, (heads, -1))
    # (1, M, D, N)
    queries, keys = (m.flatten(2).unflatten(1, (heads, -1)).sigmoid() for m in (query, key))
    # the mean over the queries goes to their side: the cost stays linear in N
    shares = (rows * keys.mean(dim=-1, keepdim=True)).sum(dim=2, keepdim=True)  # (1, M, 1, N')
    looked_for = (rows / shares).mean(dim=-1, keepdim=True)  # (1, M, D, 1)
    arrays = {'linear': (looked_for * keys).sum(dim=2)}  # (1, M, N)
    if layer.competition:
        weights, _ = layer.compete(queries, keys)
        arrays = dict(competition=weights, **arrays, competed=weights * arrays['linear'])
    arrays = {name: array.unflatten(2, size)[0] for name, array in arrays.items()}
    maps = {CAPTIONS[name]: array.sum(dim=0) for name, array in arrays.items()}
    title = f'sums over {heads} heads; linear: {over_queries(canvas)}'
    return Reading('mobile', title, maps, arrays, queried=True, shared_scale=True)


CAPTIONS = {
    'competition': 'competition weights',
    'linear': 'without competition: linear',
    'competed': 'linear x competition',
}
