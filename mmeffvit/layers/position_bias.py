"""Attention biases looked up by the distance between query and key."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def resize_table(table: Tensor, old_size: tuple[int, int], new_size: tuple[int, int]) -> Tensor:
    """Stretch the tables of all heads over another range of distances.

    Each head's table is an image whose axes are the distances in rows and in columns; its corners
    stay where they are, so distance 0 keeps its bias and the largest distance of one size becomes
    the largest of the other. At the size it has, a table is unchanged to the bit.

    Shape:
        (heads, old rows * old columns) -> (heads, new rows * new columns).
    """
    image = table.view(1, -1, *old_size)
    return F.interpolate(image, new_size, mode='bilinear', align_corners=True)[0].flatten(1)


class PositionBias(nn.Module):
    """A learned bias per head and distance ``(|rows|, |columns|)``, for maps of any size.

    On another size than ``table_size`` the table is resized in two dimensions, in every forward
    pass: nothing is kept that a new weight, device or size could make stale.

    Args:
        num_heads: Heads, each with a table of its own.
        table_size: Rows and columns of the key map that the table is made for.

    Shape:
        size (H, W) of the key map -> (heads, N', H W), N' the number of queries.
    """

    def __init__(self, num_heads: int, table_size: tuple[int, int]) -> None:
        super().__init__()
        self.table_size = table_size
        self.table = nn.Parameter(torch.zeros(num_heads, table_size[0] * table_size[1]))

    def forward(self, size: tuple[int, int], stride: int = 1) -> Tensor:
        """Biases between queries at every ``stride``-th row and column and all keys."""
        rows, columns = (self._distances(side, stride) for side in size)  # (queries, keys)
        image = resize_table(self.table, self.table_size, size).unflatten(1, size)
        # first the lines of all columns of queries, then whole lines for all rows: values picked
        # one by one take three times as long, and ten times in backward
        lines = image.index_select(2, columns.flatten()).unflatten(2, columns.shape)
        lines = lines.transpose(1, 2).flatten(1, 2)  # (heads, W' H, W)
        first = torch.arange(columns.shape[0], device=rows.device) * size[0]
        index = rows[:, None] + first[:, None]  # (H', W', H)
        return lines.index_select(1, index.flatten()).view(lines.shape[0], -1, size[0] * size[1])

    def folded(self) -> 'PositionBias':
        return ConstantPositionBias(self)

    def _distances(self, side: int, stride: int) -> Tensor:
        keys = torch.arange(side, device=self.table.device)
        return (keys[::stride, None] - keys).abs()

    def extra_repr(self) -> str:
        return f'num_heads={self.table.shape[0]}, table_size={self.table_size}'


class ConstantPositionBias(PositionBias):
    """Biases of a model whose weights no longer change: those of the last size are kept.

    Args:
        source: Whose table is taken.

    Shape:
        As :class:`PositionBias`.
    """

    def __init__(self, source: PositionBias) -> None:
        super().__init__(source.table.shape[0], source.table_size)
        self.table = source.table
        self._last: tuple[tuple, Tensor] | None = None

    def forward(self, size: tuple[int, int], stride: int = 1) -> Tensor:
        if torch.compiler.is_compiling():  # a graph for any size must not hold that of one
            return super().forward(size, stride)
        key = (*size, stride, self.table.device, self.table.dtype)
        last = self._last  # read and set at once: threads may share the module
        if last is None or last[0] != key:
            self._last = last = (key, super().forward(size, stride))
        return last[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, '_last': None}
