"""Draw predictions into an image, with OpenCV and Pillow only."""

from collections.abc import Iterable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from .results import ClassScores, Detections, LabelMap, Result, name_of

OPACITY = 0.5  # of masks and label maps over the image
SIDE, LINES = 256, 3  # minimum size of an image with class names in pixels, and their number
MIN_COLORS = 256  # of a random palette: labels without a name have a color too
FONT = 'mpl-data/fonts/ttf/DejaVuSans.ttf'  # of matplotlib; Pillow's own has ASCII only


def draw(image: NDArray, result: Result, palette: NDArray, score_thr: float = 0.3) -> NDArray:
    """See :meth:`.predictor.BasePredictor.draw`; the palette is (colors, 3), RGB by label."""
    canvas = np.ascontiguousarray(image.clip(0, 255).astype(np.uint8))
    if isinstance(result, LabelMap):
        colors = np.ascontiguousarray(palette[result.labels % len(palette)][..., ::-1])
        return cv2.addWeighted(canvas, 1 - OPACITY, colors, OPACITY, 0)
    if isinstance(result, ClassScores):
        return draw_classes(canvas, result, palette, score_thr)
    return draw_detections(canvas, result.above(score_thr), palette)


def draw_detections(canvas: NDArray, found: Detections, palette: NDArray) -> NDArray:
    """Draw boxes, names, scores and masks, the best on top: (H, W, 3) uint8 BGR -> the same."""
    colors = palette[found.labels % len(palette)]  # RGB
    line = max(round(max(canvas.shape[:2]) / 400), 1)
    order = range(len(found))[::-1]
    for i in order:
        if found.masks is not None:
            inside = found.masks[i]
            mixed = canvas[inside] * (1 - OPACITY) + colors[i][::-1] * OPACITY
            canvas[inside] = mixed.astype(np.uint8)
        left, top, right, bottom = (round(float(value)) for value in found.boxes[i])
        cv2.rectangle(canvas, (left, top), (right, bottom), colors[i][::-1].tolist(), line)
    names = found.names
    texts = [(f'{names[i]} {found.scores[i]:.2f}', found.boxes[i], colors[i]) for i in order]
    return write(canvas, texts, max(11 * line, 12), above=True)


def draw_classes(
    canvas: NDArray, found: ClassScores, palette: NDArray, score_thr: float
) -> NDArray:
    """Write the best classes and their scores into the corner of an image, enlarged if small."""
    factor = -(-SIDE // max(canvas.shape[:2]))
    size = (canvas.shape[1] * factor, canvas.shape[0] * factor)
    height = max(round(max(size) / 400) * 11, 12)
    texts = []
    for line, label in enumerate(found.above(score_thr, LINES)):
        text = f'{name_of(label, found.classes)} {found.scores[label]:.2f}'
        texts.append((text, (0, line * round(1.4 * height)), palette[label % len(palette)]))
    return write(cv2.resize(canvas, size), texts, height, above=False)


def write(
    canvas: NDArray, texts: Iterable[tuple[str, Any, NDArray]], size: int, *, above: bool
) -> NDArray:
    """Write texts with their corners and colors into an image: (H, W, 3) uint8 BGR -> the same.

    Each is above its corner if there is space, or below it, on a background of its color.
    """
    image = Image.fromarray(np.ascontiguousarray(canvas[..., ::-1]))
    pen, font = ImageDraw.Draw(image), load_font(size)
    for text, corner, color in texts:
        _, _, width, height = (int(value) + 2 for value in pen.textbbox((0, 0), text, font=font))
        left = min(max(round(float(corner[0])), 0), max(image.width - width, 0))
        top = round(float(corner[1]))
        top = top - height if above and top >= height else top
        fill = tuple(color.tolist())
        pen.rectangle((left, top, left + width, top + height), fill=fill)
        ink = (0, 0, 0) if sum(fill) > 382 else (255, 255, 255)
        pen.text((left + 1, top), text, fill=ink, font=font)
    return np.ascontiguousarray(np.asarray(image)[..., ::-1])


@cache
def load_font(size: int) -> Any:
    """The font of matplotlib, which has Latin, Greek and Cyrillic letters, or Pillow's own."""
    found = find_spec('matplotlib')
    path = Path(found.origin).parent / FONT if found and found.origin else Path(FONT)
    return ImageFont.truetype(path, size) if path.is_file() else ImageFont.load_default(size)


def make_palette(colors: Sequence[Sequence[int]] | str | None, num_classes: int) -> NDArray:
    """Colors as (N, 3) uint8 RGB; random ones if there are none, or only the name of a palette."""
    if colors and not isinstance(colors, str):
        return np.array(colors, dtype=np.uint8).reshape(-1, 3)
    size = (max(num_classes, MIN_COLORS), 3)
    return np.random.default_rng(0).integers(32, 256, size).astype(np.uint8)
