"""Read and resize images as the test pipeline of a config does, without mmdet or mmseg."""

from collections.abc import Mapping, Sequence
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
            without its aspect ratio as in the config, and padded with the color ``fill``; of a
            classifier, its center is resized to it.
        fill: Color of the padding, in the channel order of the image.
    """
    if how['short_side'] or how['crop']:
        return crop_center(image, how, fixed)
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


def crop_center(image: NDArray, how: Mapping[str, Any], fixed: tuple[int, int] | None) -> Resized:
    """Resize the shorter side and crop the center, as tests of classifiers do."""
    height, width = image.shape[:2]
    if short := how['short_side']:
        size = (
            (int(short * height / width), short)
            if width < height
            else (short, int(short * width / height))
        )
        image = resample(image, size, how['interpolation'], how['backend'])
    if how['crop']:
        columns, rows = (min(c, s) for c, s in zip(how['crop'], image.shape[1::-1], strict=True))
        top, left = round((image.shape[0] - rows) / 2), round((image.shape[1] - columns) / 2)
        image = image[top : top + rows, left : left + columns]
    size = fixed or image.shape[:2]
    return Resized(resample(image, size, how['interpolation'], how['backend']), size, (1.0, 1.0))


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


@dataclass(frozen=True)
class Reader:
    """Reads and resizes images as in the test pipeline, to the size of files with a fixed size.

    Args:
        how: `resize` of the file's metadata, see :mod:`mmeffvit.deploy.onnx.metadata`.
        fixed: Fixed height and width of the file, or None for any.
    """

    how: Mapping[str, Any]
    fixed: tuple[int, int] | None = None

    def __call__(self, path: Path) -> NDArray:
        """(1, 3, H, W), float32, RGB from 0 to 255.

        Raises:
            UserError: If it cannot be read.
        """
        return to_batch([resize(read_image(path), self.how, self.fixed).image])


def to_batch(images: Sequence[NDArray]) -> NDArray:
    """The input of a file, (B, 3, H, W), float32, RGB, of images (H, W, 3) in BGR."""
    stacked = np.stack(images)[..., ::-1].transpose(0, 3, 1, 2)
    return np.ascontiguousarray(stacked, dtype=np.float32)


def fixed_size(shape: Sequence[Any]) -> tuple[int, int] | None:
    """Height and width of a file's images (B, 3, H, W), or None for any."""
    return tuple(shape[2:]) if all(isinstance(side, int) for side in shape[2:]) else None


def reader_of(
    shape: tuple[Any, ...], metadata: Mapping[str, str], size: tuple[int, int] | None = None
) -> Reader:
    """The image reader for a file.

    Args:
        shape: Shape of its input; dynamic sides are not integers.
        metadata: Metadata of the file.
        size: Height and width to resize images to instead.

    Raises:
        UserError: If the file has no size, or another one than ``size``.
    """
    check_size(size, '--shape')
    fixed = fixed_size(shape)
    if fixed and size and fixed != tuple(size):
        raise UserError(f'the file takes images of {fixed[0]} x {fixed[1]}, not {tuple(size)}')
    how = parse_metadata(metadata).resize
    known = how['scale'] or how['crop']
    if size or (fixed and not known):
        return Reader({**NO_RESIZE, 'scale': tuple(size or fixed)[::-1]})
    if not fixed and not known:
        raise UserError('the file takes images of any size; give --shape HEIGHT WIDTH')
    return Reader(how, fixed)


def check_size(size: tuple[int, ...] | None, what: str) -> None:
    """Check the height and width of images for a model.

    Raises:
        UserError: If one is not a valid number of pixels.
    """
    if size is not None and not all(type(s) is int and 1 <= s <= MAX_SIDE for s in size):
        raise UserError(f'{what} is {tuple(size)}; give two integers from 1 to {MAX_SIDE:,}')
