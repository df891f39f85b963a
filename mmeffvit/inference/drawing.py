"""Draw predictions into an image, with OpenCV and Pillow only."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from mmeffvit.errors import UserError

from .results import ClassScores, Detections, LabelMap, Result, name_of

OPACITY = 0.5  # of masks and label maps over the image
SIDE, LINES = 256, 3  # minimum size of an image with class names in pixels, and their number
MAX_NAMED = 8  # objects with a name each
THIN = 16  # times the width of its line is a box, or more
FONT = 'mpl-data/fonts/ttf/DejaVuSans.ttf'  # of matplotlib; Pillow's own has ASCII only


def draw(image: NDArray, result: Result, palette: NDArray, score_thr: float = 0.3) -> NDArray:
    """See :meth:`.predictor.BasePredictor.draw`; the palette is (colors, 3), RGB by label."""
    canvas = np.ascontiguousarray(image.clip(0, 255).astype(np.uint8))
    if isinstance(result, LabelMap):
        if result.labels.shape != canvas.shape[:2]:
            raise UserError(
                f'the label map is of an image of {result.labels.shape}, not {canvas.shape[:2]}'
            )
        colors = np.ascontiguousarray(palette[result.labels % len(palette)][..., ::-1])
        return cv2.addWeighted(canvas, 1 - OPACITY, colors, OPACITY, 0)
    if isinstance(result, ClassScores):
        return draw_classes(canvas, result, palette, score_thr)
    return draw_detections(canvas, result.above(score_thr), palette)


def draw_detections(
    canvas: NDArray,
    found: Detections,
    palette: NDArray,
    crossed: NDArray | None = None,
    *,
    with_names: bool = True,
) -> NDArray:
    """Draw boxes, names, scores and masks, the best on top: (H, W, 3) uint8 BGR -> the same.

    Many objects have a legend in the place of names. Those where ``crossed``, (N,) bool, is true
    are crossed out.
    """
    colors = palette[found.labels % len(palette)]  # RGB
    line = max(round(max(canvas.shape[:2]) / 400), 1)
    for i in reversed(range(len(found))):
        color = colors[i][::-1].tolist()
        if found.masks is not None:
            inside = found.masks[i]
            mixed = canvas[inside] * (1 - OPACITY) + colors[i][::-1] * OPACITY
            canvas[inside] = mixed.astype(np.uint8)
        left, top, right, bottom = (round(float(value)) for value in found.boxes[i])
        width = max(min(line, min(right - left, bottom - top) // THIN), 1)
        cv2.rectangle(canvas, (left, top), (right, bottom), color, width)
        if crossed is not None and crossed[i]:
            cv2.line(canvas, (left, top), (right, bottom), color, 1, cv2.LINE_AA)
            cv2.line(canvas, (left, bottom), (right, top), color, 1, cv2.LINE_AA)
    if not with_names:
        return canvas
    height = max(11 * line, 12)
    if len(found) > MAX_NAMED:
        counts = sorted(Counter(found.labels.tolist()).items())
        lines = [
            (f'{name_of(label, found.classes)}: {count}', palette[label % len(palette)])
            for label, count in counts
        ]
        return write_lines(canvas, lines, height)
    texts = [
        (f'{name} {score:.2f}', box, color)
        for name, score, box, color in zip(
            found.names, found.scores, found.boxes, colors, strict=True
        )
    ]
    return write(canvas, texts, height)


def draw_classes(
    canvas: NDArray, found: ClassScores, palette: NDArray, score_thr: float
) -> NDArray:
    """Write the best classes and their scores into the corner of an image, enlarged if small."""
    factor = -(-SIDE // max(canvas.shape[:2]))
    size = (canvas.shape[1] * factor, canvas.shape[0] * factor)
    lines = [
        (
            f'{name_of(label, found.classes)} {found.scores[label]:.2f}',
            palette[label % len(palette)],
        )
        for label in found.above(score_thr, LINES)
    ]
    return write_lines(cv2.resize(canvas, size), lines, max(round(max(size) / 400) * 11, 12))


def write_lines(canvas: NDArray, lines: Sequence[tuple[str, NDArray]], height: int) -> NDArray:
    """Write texts with their colors below each other into the left upper corner of an image."""
    texts = []
    for row, (text, color) in enumerate(lines):
        y = round(1.4 * height * row)
        texts.append((text, (0, y, 0, y), color))
    return write(canvas, texts, height)


def write(canvas: NDArray, texts: Iterable[tuple[str, Any, NDArray]], height: int) -> NDArray:
    """Write texts at their boxes, on their colors: (H, W, 3) uint8 BGR -> the same.

    Each is at an edge of its box where it is in the image and covers no other; one without such a
    place is left out.
    """
    image = Image.fromarray(np.ascontiguousarray(canvas[..., ::-1]))
    pen, font = ImageDraw.Draw(image), load_font(height)
    taken: list[tuple[int, int, int, int]] = []
    for text, box, color in texts:
        while pen.textlength(text, font=font) + 2 > image.width and len(text) > 1:
            text = f'{text[:-2]}\N{HORIZONTAL ELLIPSIS}'
        _, _, width, tall = (int(value) + 2 for value in pen.textbbox((0, 0), text, font=font))
        x, top, _, bottom = (round(float(value)) for value in box)
        x = min(max(x, 0), max(image.width - width, 0))
        for y in (top - tall, top, bottom, bottom - tall):
            place = (x, y, x + width, y + tall)
            if 0 <= y <= max(image.height - tall, 0) and not any(meet(place, one) for one in taken):
                taken.append(place)
                fill = tuple(color.tolist())
                pen.rectangle(place, fill=fill)
                ink = (0, 0, 0) if sum(fill) > 382 else (255, 255, 255)
                pen.text((x + 1, y), text, fill=ink, font=font)
                break
    return np.ascontiguousarray(np.asarray(image)[..., ::-1])


def meet(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether two boxes have pixels in common."""
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


@cache
def load_font(size: int) -> Any:
    """The font of matplotlib, which has Latin, Greek and Cyrillic letters, or Pillow's own."""
    found = find_spec('matplotlib')
    path = Path(found.origin).parent / FONT if found and found.origin else Path(FONT)
    return ImageFont.truetype(path, size) if path.is_file() else ImageFont.load_default(size)
