"""Colors of classes that color-blind readers tell apart."""

from collections.abc import Mapping, Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

# colors of Okabe and Ito, then darker and lighter ones of Paul Tol
SAFE = (
    (230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66), (0, 114, 178), (213, 94, 0),
    (204, 121, 167), (51, 34, 136), (136, 34, 85), (153, 153, 51), (221, 221, 221), (17, 119, 51),
)  # fmt: skip
MIN_COLORS = 256  # of a random palette: labels without a name have a color too


def with_palette(meta: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of a dataset with a color for every class, which visualizers need."""
    colors = make_palette(meta.get('palette'), len(meta['classes'])).tolist()
    return {**meta, 'palette': list(map(tuple, colors))}


def make_palette(
    colors: Sequence[Sequence[int]] | str | None,
    num_classes: int,
    background: NDArray | None = None,
) -> NDArray:
    """Colors as (N, 3) uint8 RGB.

    Args:
        colors: Colors of a dataset, which are not used if they are for other classes: datasets in
            COCO format have COCO's, whatever their classes are. Nor is the name of a palette.
        num_classes: The number of classes.
        background: The mean color of the images, (3,) RGB, from which the first colors differ most.
    """
    if colors and not isinstance(colors, str) and len(colors) == num_classes:
        return np.array(colors, dtype=np.uint8).reshape(-1, 3)
    size = (max(num_classes, MIN_COLORS), 3)
    palette = np.random.default_rng(0).integers(32, 256, size).astype(np.uint8)
    palette[: len(SAFE)] = SAFE
    if background is not None:
        lab = cv2.cvtColor(np.float32([[*SAFE, background]]) / 255, cv2.COLOR_RGB2LAB)[0]
        far = np.linalg.norm(lab[:, None] - lab[None], axis=2)  # between two colors
        far[:, -1] /= 2  # from the images, more than from each other
        order = [len(SAFE)]
        for _ in SAFE:
            nearest = far[:, order].min(axis=1)
            nearest[order] = -1.0
            order.append(int(nearest.argmax()))
        palette[: len(SAFE)] = np.array(SAFE)[order[1:]]
    return palette
