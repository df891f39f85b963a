"""Boxes and outlines of the shapes that labeling tools draw."""

import base64
import math
import zlib
from collections.abc import Sequence
from io import BytesIO
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from mmeffvit.data.records import Size
from mmeffvit.utils.image_formats import open_image
from mmeffvit.utils.optional import require

from .coco_file import MAX_PIXELS, encode_runs

Points = Sequence[tuple[float, float]]
CORNERS = 36  # of a circle's polygon
LIMIT = 1.5  # of fractions of an image; larger numbers are pixels
MAX_BYTES = 2**26  # of a compressed mask, unpacked


def number(value: Any) -> float:
    """A finite number, or the text of one.

    Raises:
        ValueError: If it is neither, or far beyond any image.
    """
    try:
        found = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not abs(found) < MAX_PIXELS:
        raise ValueError(f'{value!r:.40} is not a coordinate')
    return found


def points_of(pairs: Any) -> list[tuple[float, float]]:
    """Points as pairs of numbers."""
    try:
        return [(number(x), number(y)) for x, y in pairs]
    except TypeError as error:
        raise ValueError(f'{pairs!r:.40} are not points') from error


def box_of(points: Points) -> tuple[float, float, float, float]:
    """Left, top, width and height around points."""
    if not points:
        raise ValueError('a shape without points')
    x, y = [p[0] for p in points], [p[1] for p in points]
    return min(x), min(y), max(x) - min(x), max(y) - min(y)


def flat(points: Points) -> list[float]:
    """A polygon as COCO writes it."""
    return [value for point in points for value in point]


def ellipse(x: float, y: float, wide: float, high: float, angle: float = 0.0) -> Points:
    """The outline of an ellipse around (x, y) with two radii, rotated by an angle in degrees."""
    turns = [2 * math.pi * i / CORNERS for i in range(CORNERS)]
    return rotated([(x + wide * math.cos(t), y + high * math.sin(t)) for t in turns], (x, y), angle)


def turned(
    box: tuple[float, ...], center: tuple[float, float], angle: float
) -> dict[str, Sequence[Any]]:
    """A box, or its outline if it is rotated around a center."""
    if not angle:
        return dict(box=box)
    left, top, right, bottom = box[0], box[1], box[0] + box[2], box[1] + box[3]
    corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
    return dict(outline=rotated(corners, center, angle))


def rotated(points: Points, center: tuple[float, float], angle: float) -> Points:
    """Points rotated around a center by an angle in degrees."""
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    x, y = center
    return [
        (x + (a - x) * cos - (b - y) * sin, y + (a - x) * sin + (b - y) * cos) for a, b in points
    ]


def clipped(points: Points, size: Size | None) -> Points:
    """A convex outline, without what is outside of an image of ``size`` that has its center."""
    if size is None:
        return points
    found, end = np.array(points), np.array(size[::-1])
    is_inside = ((found >= 0) & (found <= end)).all()
    center = found.mean(0).round(3)
    if is_inside or not ((center >= 0) & (center <= end)).all():
        return points
    for axis, sign, limit in ((0, 1, 0), (1, 1, 0), (0, -1, end[0]), (1, -1, end[1])):
        depth = sign * (found[:, axis] - limit)  # negative outside
        following, other = np.roll(found, -1, 0), np.roll(depth, -1)
        crosses = depth * other < 0
        share = depth / np.where(crosses, depth - other, 1)
        crossings = found + share[:, None] * (following - found)
        kept = np.stack([depth >= 0, crosses], 1)
        found = np.stack([found, crossings], 1)[kept]
    return points_of(found)


def size_of(height: Any, width: Any) -> Size | None:
    """The height and width that a file has for an image; None if they are no positive numbers."""
    try:
        size = int(number(height)), int(number(width))
    except ValueError:
        return None
    return size if min(size) > 0 else None


def unpack_png(text: Any, *, is_zipped: bool = False) -> NDArray:
    """The mask in a PNG as text in base 64, (H, W) bool."""
    try:
        content = base64.b64decode(text)
        if is_zipped:
            content = zlib.decompressobj().decompress(content, MAX_BYTES)
        with open_image(BytesIO(content)) as image:
            mask = np.asarray(image.convert('RGBA') if 'transparency' in image.info else image)
    except (OSError, TypeError, ValueError, zlib.error) as error:
        raise ValueError(f'a mask that cannot be unpacked: {error}') from error
    return mask.reshape(*mask.shape[:2], -1)[..., -1] > 0  # the alpha channel, if there is one


def placed(mask: NDArray, left: float, top: float, size: Size | None) -> dict[str, Any]:
    """The box and the run lengths of a mask at its place in an image of ``size``."""
    height, width = size or (0, 0)
    if not 0 < height * width <= MAX_BYTES:
        raise ValueError(f'a mask in an image of {width} x {height} pixels')
    full = np.zeros((height, width), bool)
    x, y = int(left), int(top)
    if min(x, y) < 0 or x + mask.shape[1] > width or y + mask.shape[0] > height:
        raise ValueError('a mask that reaches outside of its image')
    full[y : y + mask.shape[0], x : x + mask.shape[1]] = mask
    return dict(box=box_of_mask(full), mask=encode_runs(full))


def with_holes(points: Points, holes: Sequence[Points], size: Size | None) -> dict[str, Any]:
    """A polygon without its holes in an image of ``size``, as run lengths."""
    height, width = size or (0, 0)
    if not 0 < height * width <= MAX_BYTES:
        raise ValueError(f'a polygon in an image of {width} x {height} pixels')
    clipped = [np.clip(part, 0, (width, height)).ravel().tolist() for part in (points, *holes)]
    coco = require('pycocotools.mask', 'Reading polygons with holes')
    full, *rest = (coco.decode(code) for code in coco.frPyObjects(clipped, height, width))
    return encode_runs(full & ~np.any(rest, 0))


def box_of_mask(mask: NDArray) -> tuple[float, ...]:
    """Left, top, width and height of the pixels of a mask."""
    return tuple(map(float, cv2.boundingRect(mask.astype(np.uint8))))
