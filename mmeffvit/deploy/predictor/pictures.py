"""Reading the images of a folder for an exported file."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmeffvit.errors import UserError
from mmeffvit.utils.images import IRREGULAR, SUFFIXES, is_image, is_regular, read_image

from .resizing import resize
from .validation import NO_RESIZE, check_size, resize_settings


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
        image = resize(read_image(path), self.how, self.fixed).image[..., ::-1]
        return np.ascontiguousarray(image.transpose(2, 0, 1)[None], dtype=np.float32)


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
    check_size(size, '--size')
    fixed = tuple(shape[2:]) if all(isinstance(side, int) for side in shape[2:]) else None
    if fixed and size and fixed != tuple(size):
        raise UserError(f'the file takes images of {fixed[0]} x {fixed[1]}, not {tuple(size)}')
    how = resize_settings(metadata)
    if size or (fixed and not how['scale']):
        return Reader({**NO_RESIZE, 'scale': tuple(size or fixed)[::-1]})
    if not fixed and not how['scale']:
        raise UserError('the file takes images of any size; give --size HEIGHT WIDTH')
    return Reader(how, fixed)


def find_images(folder: str | os.PathLike) -> list[Path]:
    """All images in a folder and its subfolders, sorted.

    Raises:
        UserError: If the folder does not exist or has no images.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f'{folder} is not a folder; give one with images')
    found = sorted(path for path in folder.rglob('*') if is_image(path))
    images = [path for path in found if is_regular(path)]
    ignored = [path for path in found if path not in set(images)]
    if ignored:
        print(
            f'ignored {len(ignored)} of {len(found)} images, {IRREGULAR}: '
            f'{", ".join(map(str, ignored[:3]))}',
            file=sys.stderr,
        )
    if not images:
        raise UserError(f'{folder} has no image ({", ".join(SUFFIXES)})')
    return images
