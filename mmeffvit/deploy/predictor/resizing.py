"""Resize an image as the test pipeline of a config does, without mmdet or mmseg."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from mmeffvit.utils.images import resize_corners, truncated_size

CV2 = {
    'nearest': cv2.INTER_NEAREST,
    'bilinear': cv2.INTER_LINEAR,
    'bicubic': cv2.INTER_CUBIC,
    'area': cv2.INTER_AREA,
    'lanczos': cv2.INTER_LANCZOS4,
}


@dataclass(frozen=True)
class Resized:
    """A resized image.

    Args:
        image: (H, W, 3), uint8 or float32, including padding.
        content: Height and width without padding.
        factors: Scale factors of width and height.
    """

    image: NDArray
    content: tuple[int, int]
    factors: tuple[float, float]


def resize(
    image: NDArray,
    how: Mapping[str, Any],
    fixed: tuple[int, int] | None = None,
    fill: Sequence[float] = (0, 0, 0),
) -> Resized:
    """Resize and pad according to ``how``.

    Args:
        image: (H, W, 3), uint8.
        how: Settings of :func:`mmeffvit.deploy.onnx.metadata.resize_of`.
        fixed: Height and width of a model with a fixed size: the image is resized to fit, with or
            without its aspect ratio as in the config, and padded with the color ``fill``.
        fill: Color of the padding, in the channel order of the image.
    """
    height, width = image.shape[:2]
    scale, keep_ratio = how['scale'], how['keep_ratio']
    if fixed is not None:
        size = fixed
        if keep_ratio:
            factor = min(fixed[0] / height, fixed[1] / width)
            size = (max(round_half(height * factor), 1), max(round_half(width * factor), 1))
    elif scale is None:
        size = (height, width)
    elif keep_ratio and how['truncated']:
        size = truncated_size((height, width), scale)
    elif keep_ratio:
        factor = min(max(scale) / max(height, width), min(scale) / min(height, width))
        size = (max(round_half(height * factor), 1), max(round_half(width * factor), 1))
    else:
        size = (scale[1], scale[0])
    resized = resample(image, size, how['interpolation'], how['backend'])
    if fixed is None and how['divisor'] > 1:
        more = how['divisor'] - 1 if how['rounding'] == 'up' else 0
        size = tuple(max((side + more) // how['divisor'], 1) * how['divisor'] for side in size)
        resized = (
            resample(resized, size, 'bilinear', 'cv2')
            if how['rounding'] == 'up'
            else resize_corners(resized, size)
        )
    padded = fixed or (how['pad'] and tuple(how['pad'][::-1]))
    if padded:
        resized = pad(resized, padded, fill if fixed else how['pad_value'])
    return Resized(resized, tuple(size), (size[1] / width, size[0] / height))


def round_half(value: float) -> int:
    """Round half up, as mmdet and mmseg do for image sides."""
    return int(value + 0.5)


def resample(image: NDArray, size: tuple[int, int], interpolation: str, backend: str) -> NDArray:
    """Resize to height and width."""
    if image.shape[:2] == tuple(size):
        return image
    if backend == 'pillow':
        from PIL import Image

        method = getattr(Image.Resampling, interpolation.upper())
        return np.asarray(Image.fromarray(image).resize(size[::-1], method))
    return cv2.resize(image, size[::-1], interpolation=CV2[interpolation])


def pad(image: NDArray, size: tuple[int, int], value: float | Sequence[float]) -> NDArray:
    """Pad to height and width, at the bottom and on the right."""
    height, width = (max(side, own) for side, own in zip(size, image.shape[:2], strict=True))
    padded = np.empty((height, width, image.shape[2]), dtype=image.dtype)
    padded[:] = np.round(value).astype(image.dtype)
    padded[: image.shape[0], : image.shape[1]] = image
    return padded
