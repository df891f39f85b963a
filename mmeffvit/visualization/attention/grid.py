"""Positions of the cells of a feature map on the image."""

import math
from dataclasses import dataclass

import numpy as np

STRIDES = (1, 2, 4, 8, 16, 32, 64, 128)  # pixels


def pitch(side: int, cells: int) -> float:
    """Pixels per cell of a map with ``cells`` along a side of the network's input.

    The stride that gives this number of cells, rounded up, if any. MobileViTv2 resizes odd maps to
    the next even number of cells, which divide the side evenly.
    """
    return next((s for s in STRIDES if -(-side // s) == cells), side / cells)


@dataclass(frozen=True)
class Canvas:
    """The input of the network including padding, and an optional query point.

    Args:
        height: Height in pixels.
        width: Width in pixels.
        query: x and y of a query point in pixels of the canvas, or None.

    Raises:
        ValueError: If the query point is outside.
    """

    height: int
    width: int
    query: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.query is None:
            return
        x, y = self.query
        if not (0 <= x < self.width and 0 <= y < self.height):
            raise ValueError(
                f'query is {self.query}; choose x in [0, {self.width}) and y in [0, {self.height})'
            )

    def pitches(self, grid: tuple[int, int]) -> tuple[float, float]:
        """Height and width of a cell in pixels."""
        return pitch(self.height, grid[0]), pitch(self.width, grid[1])

    def stride(self, grid: tuple[int, int]) -> int:
        """The power of two closest to the size of a cell."""
        return 2 ** round(math.log2(max(self.pitches(grid))))

    def query_index(self, grid: tuple[int, int]) -> int:
        """The row-major index of the cell with the query point."""
        x, y = self.query
        row, column = (
            min(int(place / size), cells - 1)
            for place, size, cells in zip((y, x), self.pitches(grid), grid, strict=True)
        )
        return row * grid[1] + column

    def spread(
        self, values: np.ndarray, content: tuple[float, float], size: tuple[int, int]
    ) -> np.ndarray:
        """Resize a map to an image: every pixel gets the value of its cell, without interpolation.

        Args:
            values: The map, (H, W).
            content: Height and width in pixels of the part of the canvas that the image fills,
                from the top left; the rest is padding.
            size: Height and width of the image and of the result.
        """
        indices = []
        for part, pixels, cell, cells in zip(
            content, size, self.pitches(values.shape), values.shape, strict=True
        ):
            centers = (np.arange(pixels) + 0.5) * part / pixels
            indices.append(np.minimum((centers / cell).astype(int), cells - 1))
        return values[indices[0][:, None], indices[1][None]]
