"""Read and resize images as the test pipeline of a config does, without mmdet or mmseg."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from mmeffvit.errors import UserError
from mmeffvit.utils.images import (
    Unreadable,
    read_colors,
    read_image,
    resize_corners,
    truncated_size,
)

from .metadata import MAX_SIDE, Metadata, parse_metadata

CV2 = {
    'nearest': cv2.INTER_NEAREST,
    'bilinear': cv2.INTER_LINEAR,
    'bicubic': cv2.INTER_CUBIC,
    'area': cv2.INTER_AREA,
    'lanczos': cv2.INTER_LANCZOS4,
}


@dataclass(frozen=True)
class Resized:
    """A resized image."""

    image: NDArray  # (H, W, 3), uint8 or float32, including padding
    content: tuple[int, int]  # height and width without padding
    factors: tuple[float, float]  # scale factors of width and height
    original: tuple[int, int]  # height and width before the resize


def read(path: Path, metadata: Metadata) -> NDArray:
    """Read an image with the decoder of the config: (H, W, 3) BGR; UserError if it is broken."""
    if metadata.resize['decoder'] == 'cv2':
        return read_image(path)
    try:
        # not rotated as EXIF says
        return np.ascontiguousarray(read_colors(path, as_mmcv=True)[..., ::-1])
    except Unreadable as error:
        raise UserError(f'an image cannot be read: {error}') from error


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
            without its aspect ratio and to multiples as the config says, and padded; of a
            classifier, its center is resized to it.
        fill: Color of the padding of configs without ``Pad``, in the channel order of the image.
    """
    height, width = original = image.shape[:2]
    method = settings['interpolation'], settings['backend']
    is_cropped = settings['crop'] or settings['short_side']
    if fixed and not is_cropped:
        factor = min(fixed[0] / height, fixed[1] / width)
        size = scaled_size(original, factor) if settings['keep_ratio'] else fixed
        image = to_multiple(resample(image, size, *method), settings, fixed)
    else:
        image = resample(image, size_of(original, settings), *method)
        image = crop_center(to_multiple(image, settings), settings['crop'])
    if fixed and is_cropped:
        image = resample(image, fixed, *method)
    content = image.shape[:2]
    pads = settings['pad'] or settings['pad_to_square'] or settings['pad_divisor'] > 1
    image = pad(
        image, fixed or padded_size(content, settings), settings['pad_value'] if pads else fill
    )
    return Resized(image, content, (content[1] / width, content[0] / height), original)


def size_of(size: tuple[int, int], settings: Mapping[str, Any]) -> tuple[int, int]:
    """Height and width of an image of ``size`` after the config's resize."""
    height, width = size
    scale, short = settings['scale'], settings['short_side']
    if short and width < height:
        return int(short * height / width), short
    if short:
        return short, int(short * width / height)
    if scale is None:
        return size
    if not settings['keep_ratio']:
        return scale[1], scale[0]
    if settings['truncated']:
        return truncated_size(size, scale)
    return scaled_size(size, min(max(scale) / max(size), min(scale) / min(size)))


def to_multiple(
    image: NDArray, settings: Mapping[str, Any], fixed: tuple[int, int] | None = None
) -> NDArray:
    """Resize the sides of an image to multiples of the config's divisor, within ``fixed``."""
    divisor, up = settings['divisor'], settings['rounding'] == 'up'
    sides = image.shape[:2]
    size = tuple(max((side + up * (divisor - 1)) // divisor, 1) * divisor for side in sides)
    if fixed:
        pairs = zip(sides, size, fixed, strict=True)
        size = tuple(own if own == most else min(side, most) for own, side, most in pairs)
    return resample(image, size, 'bilinear', 'cv2') if up else resize_corners(image, size)


def crop_center(image: NDArray, crop: Sequence[int] | None) -> NDArray:
    """Crop the center of width and height ``crop``, or less where the image has less."""
    if not crop:
        return image
    columns, rows = (min(c, s) for c, s in zip(crop, image.shape[1::-1], strict=True))
    top, left = round((image.shape[0] - rows) / 2), round((image.shape[1] - columns) / 2)
    return image[top : top + rows, left : left + columns]


def padded_size(size: tuple[int, int], settings: Mapping[str, Any]) -> tuple[int, ...]:
    """Height and width of an image of ``size`` after the config's ``Pad``."""
    if settings['pad']:
        return tuple(settings['pad'][::-1])
    if settings['pad_to_square']:
        size = (max(size),) * 2
    divisor = settings['pad_divisor']
    return tuple(-(-side // divisor) * divisor for side in size)


def scaled_size(size: tuple[int, int], factor: float) -> tuple[int, int]:
    """Height and width times a factor, with halves rounded up, just as mmdet and mmseg do."""
    return max(int(size[0] * factor + 0.5), 1), max(int(size[1] * factor + 0.5), 1)


def resample(image: NDArray, size: tuple[int, int], interpolation: str, backend: str) -> NDArray:
    """Resize to height and width."""
    if image.shape[:2] == tuple(size):
        return image
    if backend == 'pillow':
        from PIL import Image

        if interpolation == 'area':
            raise UserError(f'Pillow has no interpolation {interpolation!r}')
        method = Image.Resampling[interpolation.upper()]
        return np.asarray(Image.fromarray(image).resize(size[::-1], method))
    return cv2.resize(image, size[::-1], interpolation=CV2[interpolation])


def pad(image: NDArray, size: Sequence[int], value: float | Sequence[float]) -> NDArray:
    """Pad to height and width, at the bottom and on the right."""
    bottom, right = (max(side - own, 0) for side, own in zip(size, image.shape[:2], strict=True))
    color = np.broadcast_to(value, 3).tolist()
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

    Raises:
        UserError: If the input ``shape`` of the file has no size, or another one than ``size``.
    """
    fixed = fixed_size(shape)
    if fixed and size and fixed != tuple(size):
        raise UserError(f'the file takes images of {fixed[0]} x {fixed[1]}, not {tuple(size)}')
    known = parse_metadata(metadata)
    fixed = size or fixed
    if not (fixed or known.resize['scale'] or known.resize['crop']):
        raise UserError('the file takes images of any size; give --shape HEIGHT WIDTH')
    return lambda path: prepare(path, known, fixed)


def prepare(path: Path, metadata: Metadata, fixed: tuple[int, int] | None = None) -> NDArray:
    """The input for an image of a file with ``metadata`` and perhaps a fixed size."""
    resized = resize(read(path, metadata), metadata.resize, fixed, metadata.fill)
    return to_batch([resized.image])


def check_size(size: tuple[int, ...] | None, what: str) -> None:
    """Raise UserError if the height or width of images is not a valid number of pixels."""
    if size is not None and not all(type(s) is int and 1 <= s <= MAX_SIDE for s in size):
        raise UserError(f'{what} is {tuple(size)}; give two integers from 1 to {MAX_SIDE:,}')
