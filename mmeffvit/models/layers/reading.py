"""The attention maps of a layer in one forward pass.

:meth:`mmeffvit.models.layers.base_attention.Attention.read_attention` returns a :class:`Reading`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

# from the size of a map to the row-major index of the query cell; None means all cells
Locate = Callable[[tuple[int, int]], int] | None


@dataclass(frozen=True)
class Reading:
    """The maps of a layer for one image."""

    mechanism: str  # its short name
    title: str  # of the maps
    maps: dict[str, Tensor]  # to draw, each (H, W), by caption
    arrays: dict[str, Tensor]  # the raw values by name, with H and W as the last dimensions
    queried: bool = False  # whether the maps depend on the query point
    shared_scale: bool = False  # whether the maps share one color scale, to be comparable
    by_head: str = ''  # name of the array with a map of every head, (heads, H, W), if any

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the maps."""
        rows, columns = next(iter(self.maps.values())).shape
        return rows, columns


def rows_of_queries(query: Tensor, locate: Locate) -> Tensor:
    """Queries as rows: only the query point if there is one, otherwise all.

    Shape:
        (B, C, H, W) -> (B, N', C), N' = 1 or H W.
    """
    rows = query.flatten(2).transpose(1, 2)
    if locate is None:
        return rows
    index = locate(tuple(query.shape[2:]))
    return rows[:, index : index + 1]


def scores_of_heads(query: Tensor, key: Tensor, num_heads: int, locate: Locate) -> Tensor:
    """``q k^T / sqrt(D)`` of every head: (B, M D, H', W'), (B, M D, H, W) -> (B, M, N', N)."""
    rows = rows_of_queries(query, locate).unflatten(2, (num_heads, -1)).transpose(1, 2)
    columns = key.flatten(2).unflatten(1, (num_heads, -1))
    return rows @ columns * rows.shape[3] ** -0.5


def read_softmax(kind: str, query: Tensor, key: Tensor, num_heads: int, locate: Locate) -> Reading:
    """Read ``softmax(q k^T / sqrt(D))`` of every head, and draw the mean over the heads."""
    weights = scores_of_heads(query, key, num_heads, locate).softmax(dim=-1)
    attention = weights.mean(dim=2)[0].unflatten(1, key.shape[2:])  # (M, H, W)
    title = f'mean over {num_heads} heads, {over_queries(locate)}'
    maps = {'': attention.mean(dim=0)}
    arrays = {'attention': attention}
    return Reading(kind, title, maps, arrays, queried=True, by_head='attention')


def over_queries(locate: Locate) -> str:
    """How query rows were reduced to a map, for titles."""
    return 'mean over all queries' if locate is None else 'of the query point'
