"""What is read from one attention layer in one forward pass.

A layer whose attention can be looked at has a method ``read_attention(inputs, locate)`` that gives
a :class:`Reading`; ``inputs`` are those of its forward, of one image.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

# from rows and columns of a map to the cell to look from, counted row by row; None looks from all
Locate = Callable[[tuple[int, int]], int] | None


@dataclass(frozen=True)
class Reading:
    """The maps of a layer for one image.

    Args:
        mechanism: Short name of the kind of attention.
        title: What the maps are, in words.
        maps: The maps to draw by caption, each (H, W).
        arrays: The raw values by name, with H and W as their last dimensions.
        queried: The maps depend on the query point.
        shared_scale: The maps are compared with each other: one color scale for all.
    """

    mechanism: str
    title: str
    maps: dict[str, Tensor]
    arrays: dict[str, Tensor]
    queried: bool = False
    shared_scale: bool = False

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the maps."""
        rows, columns = next(iter(self.maps.values())).shape
        return rows, columns


def rows_of_queries(query: Tensor, locate: Locate) -> Tensor:
    """Queries as rows: that of the query point alone where there is one, else all.

    Shape:
        (B, C, H, W) -> (B, N', C), N' 1 or H W.
    """
    rows = query.flatten(2).transpose(1, 2)
    if locate is None:
        return rows
    index = locate(tuple(query.shape[2:]))
    return rows[:, index : index + 1]


def over_queries(locate: Locate) -> str:
    """How a map came from the rows of queries, for titles."""
    return 'mean over all queries' if locate is None else 'of the query point'
