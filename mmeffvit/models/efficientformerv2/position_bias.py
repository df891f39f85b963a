"""Attention biases looked up by the distance between query and key."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmeffvit.models.layers.grid import Grid, Gridded


def resize_table(table: Tensor, old_size: tuple[int, int], new_size: tuple[int, int]) -> Tensor:
    """Resize the bias tables of all heads to another range of distances.

    Each head's table is an image whose axes are the distances in rows and in columns, interpolated
    with aligned corners: distance 0 keeps its bias and the largest distance of one size becomes the
    largest of the other. At its own size a table is unchanged to the bit.

    Shape:
        (heads, old rows * old columns) -> (heads, new rows * new columns).
    """
    image = table.view(1, -1, *old_size)
    return F.interpolate(image, new_size, mode='bilinear', align_corners=True)[0].flatten(1)


class PositionBias(Gridded):
    """A learned bias per head and distance ``(|rows|, |columns|)``, for maps of any size.

    For maps of another size than ``table_size`` the table is resized in two dimensions.

    Args:
        num_heads: Number of heads, each with its own table.
        table_size: Rows and columns of the key map that the table is built for.
        resize_matrix: Rather than the table, resize the (queries, keys) matrix of ``table_size``
            as an image, bicubically.

    Shape:
        size (H, W) of the key map -> (heads, N', H W), with N' queries.
    """

    gridded = 'table'

    def __init__(
        self, num_heads: int, table_size: tuple[int, int], *, resize_matrix: bool = False
    ) -> None:
        super().__init__(table_size)
        self.resize_matrix = resize_matrix
        self.table = nn.Parameter(torch.zeros(num_heads, table_size[0] * table_size[1]))

    def forward(self, size: tuple[int, int], stride: int = 1) -> Tensor:
        """Biases between queries at every ``stride``-th row and column and all keys."""
        if not self.resize_matrix:
            return self._gather(resize_table(self.table, self.grid, size), size, stride)
        matrix = self._gather(self.table, self.grid, stride)
        # rounded up, without negative numbers: ONNX divides these towards zero
        rows, columns = ((side + stride - 1) // stride for side in size)
        return F.interpolate(matrix[None], (rows * columns, size[0] * size[1]), mode='bicubic')[0]

    def _gather(self, table: Tensor, size: tuple[int, int], stride: int) -> Tensor:
        rows, columns = (self._distances(side, stride) for side in size)  # (queries, keys)
        image = table.unflatten(1, size)
        # index columns first, then whole rows: gathering single values takes three times as long,
        # and ten times in backward
        lines = image.index_select(2, columns.flatten()).unflatten(2, columns.shape)
        lines = lines.transpose(1, 2).flatten(1, 2)  # (heads, W' H, W)
        first = torch.arange(columns.shape[0], device=rows.device) * size[0]
        index = rows[:, None] + first[:, None]  # (H', W', H)
        return lines.index_select(1, index.flatten()).view(lines.shape[0], -1, size[0] * size[1])

    def resized(self, tensor: Tensor, grid: Grid) -> Tensor:
        if grid == self.grid or tensor.ndim != 2 or tensor.shape[1] != math.prod(grid):
            return tensor
        return resize_table(tensor, grid, self.grid)

    def _distances(self, side: int, stride: int) -> Tensor:
        keys = torch.arange(side, device=self.table.device)
        return (keys[::stride, None] - keys).abs()

    def extra_repr(self) -> str:
        return f'num_heads={self.table.shape[0]}, table_size={self.grid}'
