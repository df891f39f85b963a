"""Parameters with one value per cell of a grid, which is saved with them."""

import math
import warnings
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

Grid = tuple[int, int]  # rows and columns
GRIDS = 'grids'  # key of the metadata that torch saves beside the tensors of a state dict
MAX_SIDE = 2**16


class Gridded(nn.Module):
    """A module whose parameter ``gridded`` has one value per cell of a grid, or distance in it.

    State dicts have the grid as metadata, so no key is added and files without it still load. A
    tensor of another grid is resized when it is loaded.
    """

    gridded: str
    num_extra: int = 0  # values at most that are of no cell

    def __init__(self, grid: Grid) -> None:
        super().__init__()
        self.grid = grid
        self.register_state_dict_post_hook(_save_grid)
        self.register_load_state_dict_pre_hook(_resize)

    def resized(self, tensor: Tensor, grid: Grid) -> Tensor:
        """A tensor of ``grid``, resized to the grid of this module; others are unchanged."""
        raise NotImplementedError

    def square(self, tensor: Tensor) -> Grid | None:
        """The grid of a tensor built for a square one; None if it cannot be."""
        count = tensor.shape[1] if tensor.ndim > 1 else 0
        side = math.isqrt(count)
        return (side, side) if side and count - side**2 <= self.num_extra else None


def grids_of(metadata: Any) -> dict[str, Grid]:
    """The valid grids in the metadata of a module, by the name of their tensor."""
    grids = metadata.get(GRIDS) if isinstance(metadata, Mapping) else None
    return {
        name: tuple(grid)
        for name, grid in (grids.items() if isinstance(grids, Mapping) else ())
        if isinstance(name, str) and isinstance(grid, tuple | list) and len(grid) == 2
        and all(type(side) is int and 0 < side <= MAX_SIDE for side in grid)
    }  # fmt: skip


def _save_grid(module: Gridded, state: dict, prefix: str, metadata: dict[str, Any]) -> None:
    metadata[GRIDS] = {module.gridded: module.grid}


def _resize(module: Gridded, state: dict, prefix: str, metadata: Any, *_: Any) -> None:
    key, grid = prefix + module.gridded, grids_of(metadata).get(module.gridded)
    if key in state and grid not in (None, module.grid):
        state[key] = module.resized(state[key], grid)
        warnings.warn(f'{key} is resized from {grid} to {module.grid} cells', stacklevel=2)
