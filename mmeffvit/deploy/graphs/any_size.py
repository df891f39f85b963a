"""Variants of modules for tracing with dynamic sizes, with equal outputs.

A traced graph takes the branches of its example, and has no operator for adaptive pooling: modules
that read the size of their input in Python read it from the graph here.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class AnySizeAdaptiveAvgPool2d(nn.Module):
    """Adaptive average pooling as products with two matrices.

    Cell i of n covers the rows from ``floor(i H / n)`` to ``ceil((i + 1) H / n)``, and likewise
    columns: cells may overlap by one row.
    """

    def __init__(self, pool: nn.AdaptiveAvgPool2d) -> None:
        super().__init__()
        self.output_size = pool.output_size

    def forward(self, x: Tensor) -> Tensor:
        cells = self.output_size
        rows, columns = (cells, cells) if isinstance(cells, int) else cells
        return pooling(rows, x.shape[2], x) @ x @ pooling(columns, x.shape[3], x).mT


def pooling(cells: int, side: int, like: Tensor) -> Tensor:
    """The matrix (cells, side) that averages over the rows of each cell."""
    cell = torch.arange(cells, device=like.device)[:, None]
    start, end = cell * side // cells, ((cell + 1) * side + cells - 1) // cells
    row = torch.arange(side, device=like.device)
    inside = torch.logical_and(row >= start, row < end).to(like.dtype)
    return inside / (end - start).to(like.dtype)


class AnySizeUpsample(nn.Module):
    """mmseg's ``Upsample`` by an integer factor, without its rounding in floating point."""

    def __init__(self, upsample: nn.Module) -> None:
        super().__init__()
        self.factor = int(upsample.scale_factor)
        if self.factor != upsample.scale_factor:
            raise ValueError(
                f'scale_factor is {upsample.scale_factor}; only integers can be exported'
            )
        self.mode, self.align_corners = upsample.mode, upsample.align_corners

    def forward(self, x: Tensor) -> Tensor:
        size = [side * self.factor for side in x.shape[2:]]
        return F.interpolate(x, size, mode=self.mode, align_corners=self.align_corners)


def any_size(model: nn.Module) -> nn.Module:
    """Replace modules of ``model`` by their variants for any size, in place, and return it."""
    if isinstance(model, nn.AdaptiveAvgPool2d):
        return AnySizeAdaptiveAvgPool2d(model)
    if type(model).__module__ == 'mmseg.models.utils.wrappers':  # its Upsample, not imported
        return AnySizeUpsample(model)
    for name, child in model.named_children():
        setattr(model, name, any_size(child))
    return model
