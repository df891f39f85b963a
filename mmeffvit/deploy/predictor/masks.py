"""Pasting masks of objects into the image."""

import numpy as np
from numpy.typing import NDArray


def paste_mask(
    mask: NDArray, box: NDArray, shape: tuple[int, int], threshold: float = 0.5
) -> NDArray:
    """Resize the mask of a box bilinearly to the pixels it covers, as in Mask R-CNN.

    The probability of a pixel is interpolated at its center, with zeros outside the grid.

    Args:
        mask: Probabilities on a grid over the box, (M, M).
        box: Left, top, right and bottom, in pixels.
        shape: Height and width of the image.
        threshold: Smallest probability of the pixels of the object.

    Shape:
        -> (H, W), bool.
    """
    left, top, right, bottom = (float(value) for value in box)
    columns, x = interpolation(left, right, shape[1], mask.shape[1])
    rows, y = interpolation(top, bottom, shape[0], mask.shape[0])
    pasted = np.zeros(shape, dtype=bool)
    pasted[rows, columns] = y @ mask @ x.T >= threshold
    return pasted


def interpolation(start: float, end: float, side: int, cells: int) -> tuple[slice, NDArray]:
    """The pixels from ``start`` to ``end``, and their interpolation weights for the cells."""
    first = min(max(int(np.floor(start)) - 1, 0), side)
    last = max(min(int(np.ceil(end)) + 1, side), first)
    centers = np.arange(first, last, dtype=np.float32) + 0.5
    place = (centers - start) / max(end - start, 1e-6) * cells - 0.5
    weights = 1 - np.abs(place[:, None] - np.arange(cells))
    return slice(first, last), np.clip(weights, 0, None).astype(np.float32)
