"""Images of a folder as an exported file takes them."""

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

from .described import UNRESIZED, check_size, resize_settings
from .resizing import resize


@dataclass(frozen=True)
class Reader:
    """Reads images as the tests of a config do, for files of one size in that size.

    Args:
        how: `resize` of the metadata of a file, see :mod:`mmeffvit.deploy.onnx.metadata`.
        fixed: Height and width that the file takes, or None for any.
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
    """The reader of images for a file.

    Args:
        shape: Of its input; sides that are not fixed are no numbers.
        metadata: Of the file, as the export writes them.
        size: Height and width to stretch images to instead.

    Raises:
        UserError: If the file says nothing of a size, or takes another than ``size``.
    """
    check_size(size, '--size')
    fixed = tuple(shape[2:]) if all(isinstance(side, int) for side in shape[2:]) else None
    if fixed and size and fixed != tuple(size):
        raise UserError(f'the file takes images of {fixed[0]} x {fixed[1]}, not {tuple(size)}')
    how = resize_settings(metadata)
    if size or (fixed and not how['scale']):
        return Reader({**UNRESIZED, 'scale': tuple(size or fixed)[::-1]})
    if not fixed and not how['scale']:
        raise UserError('the file takes images of any size; give --size HEIGHT WIDTH')
    return Reader(how, fixed)


def find_images(folder: str | os.PathLike) -> list[Path]:
    """All images below a folder, sorted.

    Raises:
        UserError: If there is no such folder, or no image in it.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f'{folder} is not a folder; give one with images')
    found = sorted(path for path in folder.rglob('*') if is_image(path))
    images = [path for path in found if is_regular(path)]
    left_out = [path for path in found if path not in set(images)]
    if left_out:
        print(
            f'left out {len(left_out)} of {len(found)} images, {IRREGULAR}: '
            f'{", ".join(map(str, left_out[:3]))}',
            file=sys.stderr,
        )
    if not images:
        raise UserError(f'{folder} has no image ({", ".join(SUFFIXES)})')
    return images
