"""Read and resize images as the test pipeline of a config does, without mmdet or mmseg."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from mmeffvit.errors import UserError
from mmeffvit.utils.images import read_image, resize_corners, truncated_size

from .metadata import MAX_SIDE, NO_RESIZE, parse_metadata

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
        original: Height and width before the resize.
    """

    image: NDArray
    content: tuple[int, int]
    factors: tuple[float, float]
    original: tuple[int, int]


def resize(
    image: NDArray,
    settings: Mapping[str, Any],
    fixed: tuple[int, int] | None = None,
    fill: Sequence[float] = (0, 0, 0),
) -> Resized:
    """Resize and pad an image.

    Args:
        image: (H, W, 3), uint8.
        settings: Result of :func:`mmeffvit.deploy.graphs.metadata.resize_of`.
        fixed: Height and width of a model with a fixed size: the image is resized to fit, with or
            without its aspect ratio as in the config, and padded with the color ``fill``; of a
            classifier, its center is resized to it.
        fill: Color of the padding, in the channel order of the image.
    """
    if settings['short_side'] or settings['crop']:
        return crop_center(image, settings, fixed)
    original = image.shape[:2]
    height, width = original
    scale, keep_ratio, divisor = (settings[key] for key in ('scale', 'keep_ratio', 'divisor'))
    if fixed is not None:
        factor = min(fixed[0] / height, fixed[1] / width)
        size = scaled_size(original, factor) if keep_ratio else fixed
    elif scale is None:
        size = original
    elif not keep_ratio:
        size = (scale[1], scale[0])
    elif settings['truncated']:
        size = truncated_size(original, scale)
    else:
        factor = min(max(scale) / max(original), min(scale) / min(original))
        size = scaled_size(original, factor)
    resized = resample(image, size, settings['interpolation'], settings['backend'])
    if fixed is None and divisor > 1 and settings['rounding'] == 'up':
        size = tuple(-(-side // divisor) * divisor for side in size)
        resized = resample(resized, size, 'bilinear', 'cv2')
    elif fixed is None and divisor > 1:
        size = tuple(max(side // divisor, 1) * divisor for side in size)
        resized = resize_corners(resized, size)
    if fixed:
        resized = pad(resized, fixed, fill)
    elif settings['pad']:
        resized = pad(resized, settings['pad'][::-1], settings['pad_value'])
    return Resized(resized, tuple(size), (size[1] / width, size[0] / height), original)


def crop_center(
    image: NDArray, settings: Mapping[str, Any], fixed: tuple[int, int] | None
) -> Resized:
    """Resize the shorter side and crop the center, as tests of classifiers do."""
    method = settings['interpolation'], settings['backend']
    original = image.shape[:2]
    height, width = original
    if short := settings['short_side']:
        size = (
            (int(short * height / width), short)
            if width < height
            else (short, int(short * width / height))
        )
        image = resample(image, size, *method)
    if crop := settings['crop']:
        columns, rows = (min(c, s) for c, s in zip(crop, image.shape[1::-1], strict=True))
        top, left = round((image.shape[0] - rows) / 2), round((image.shape[1] - columns) / 2)
        image = image[top : top + rows, left : left + columns]
    size = fixed or image.shape[:2]
    return Resized(resample(image, size, *method), size, (1.0, 1.0), original)


def scaled_size(size: tuple[int, int], factor: float) -> tuple[int, int]:
    """Height and width times a factor, with halves rounded up as in mmdet and mmseg."""
    return max(int(size[0] * factor + 0.5), 1), max(int(size[1] * factor + 0.5), 1)


def resample(image: NDArray, size: tuple[int, int], interpolation: str, backend: str) -> NDArray:
    """Resize to height and width."""
    if image.shape[:2] == tuple(size):
        return image
    if backend == 'pillow':
        from PIL import Image

        method = getattr(Image.Resampling, interpolation.upper())
        return np.asarray(Image.fromarray(image).resize(size[::-1], method))
    return cv2.resize(image, size[::-1], interpolation=CV2[interpolation])


def pad(image: NDArray, size: Sequence[int], value: float | Sequence[float]) -> NDArray:
    """Pad to height and width, at the bottom and on the right."""
    bottom, right = (max(side - own, 0) for side, own in zip(size, image.shape[:2], strict=True))
    color = np.broadcast_to(np.round(value), 3).tolist()
    return cv2.copyMakeBorder(image, 0, bottom, 0, right, cv2.BORDER_CONSTANT, value=color)


def to_batch(images: Sequence[NDArray]) -> NDArray:
    """The input of a file, (B, 3, H, W), float32, RGB, of images (H, W, 3) in BGR."""
    stacked = np.stack(images)[..., ::-1].transpose(0, 3, 1, 2)
    return np.ascontiguousarray(stacked, dtype=np.float32)


def fixed_size(shape: Sequence[Any]) -> tuple[int, int] | None:
    """Height and width of a file's images (B, 3, H, W), or None for any."""
    return tuple(shape[2:]) if all(isinstance(side, int) for side in shape[2:]) else None


def reader_of(
    shape: tuple[Any, ...], metadata: Mapping[str, str], size: tuple[int, int] | None = None
) -> Callable[[Path], NDArray]:
    """A function that reads an image for a file: (1, 3, H, W), float32, RGB from 0 to 255.

    Args:
        shape: Shape of its input; dynamic sides are not integers.
        metadata: Metadata of the file.
        size: Height and width to resize images to instead.

    Raises:
        UserError: If the file has no size, or another one than ``size``.
    """
    fixed = fixed_size(shape)
    if fixed and size and fixed != tuple(size):
        raise UserError(f'the file takes images of {fixed[0]} x {fixed[1]}, not {tuple(size)}')
    settings = parse_metadata(metadata).resize
    known = settings['scale'] or settings['crop']
    if size or (fixed and not known):
        settings, fixed = {**NO_RESIZE, 'scale': tuple(size or fixed)[::-1]}, None
    elif not known:
        raise UserError('the file takes images of any size; give --shape HEIGHT WIDTH')
    return lambda path: to_batch([resize(read_image(path), settings, fixed).image])


def check_size(size: tuple[int, ...] | None, what: str) -> None:
    """Check the height and width of images for a model.

    Raises:
        UserError: If one is not a valid number of pixels.
    """
    if size is not None and not all(type(s) is int and 1 <= s <= MAX_SIDE for s in size):
        raise UserError(f'{what} is {tuple(size)}; give two integers from 1 to {MAX_SIDE:,}')
