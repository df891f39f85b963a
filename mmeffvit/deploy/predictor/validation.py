"""Validation of exported files and their metadata, which are untrusted."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mmeffvit.errors import UserError
from mmeffvit.utils.reading import parse_json

from .resizing import CV2

MAX_SIDE = 2**15  # pixels of an input image: the limit of OpenCV's resize
MAX_DIVISOR = 2**10


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Context for loading an exported file.

    Raises:
        UserError: If it is missing or invalid.
    """
    if not path.is_file():
        raise UserError(f'{str(path)!r} does not exist; `tools/export.py` writes such a file')
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # onnxruntime has a dozen exception classes
        reason = ' '.join(str(error).split())
        raise UserError(
            f'{path} cannot be read as a model, write it again with `tools/export.py` '
            f'({reason:.200})'
        ) from error


def check_input(shape: tuple[Any, ...], path: Path) -> None:
    """Check the shape of the input of a model, empty if it is not one tensor of floats.

    Raises:
        UserError: If it is not one batch of images.
    """
    if len(shape) != 4:
        takes = f'images of shape {shape}' if shape else 'other inputs'
        raise UserError(f'{path} takes {takes}, not one batch of images (B, 3, H, W) in float')


def check_size(size: tuple[int, ...] | None, what: str) -> None:
    """Check the height and width of images for a model.

    Raises:
        UserError: If one is not a valid number of pixels.
    """
    if size is not None and not all(is_side(side) for side in size):
        raise UserError(f'{what} is {tuple(size)}; give two integers from 1 to {MAX_SIDE:,}')


def is_side(value: Any) -> bool:
    return type(value) is int and 1 <= value <= MAX_SIDE


def is_pair(value: Any) -> bool:
    return value is None or (
        isinstance(value, list) and len(value) == 2 and all(map(is_side, value))
    )


def is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def is_color(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(map(is_number, value))


def is_palette(value: Any) -> bool:
    return value is None or (
        isinstance(value, list)
        and all(is_color(color) and all(type(c) is int and 0 <= c < 256 for c in color)
                for color in value)
    )  # fmt: skip


def is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


RESIZE: dict[str, Callable[[Any], bool]] = {
    'scale': is_pair,
    'keep_ratio': lambda value: isinstance(value, bool),
    'truncated': lambda value: isinstance(value, bool),
    'interpolation': lambda value: value in list(CV2),
    'backend': lambda value: value in ['cv2', 'pillow'],
    'divisor': lambda value: type(value) is int and 1 <= value <= MAX_DIVISOR,
    'rounding': lambda value: value in ['down', 'up'],
    'pad': is_pair,
    'pad_value': lambda value: is_number(value) or is_color(value),
}
NO_RESIZE = dict(
    scale=None, keep_ratio=False, truncated=False, interpolation='bilinear', backend='cv2',
    divisor=1, rounding='down', pad=None, pad_value=0,
)  # fmt: skip


def resize_settings(metadata: Mapping[str, str]) -> dict[str, Any]:
    """How images are resized, see :func:`mmeffvit.deploy.onnx.metadata.resize_of`.

    Raises:
        UserError: If a value is invalid.
    """
    given = value_of(metadata, 'resize', lambda value: isinstance(value, dict), {})
    settings = {**NO_RESIZE, **given}
    for key, is_valid in RESIZE.items():
        if not is_valid(settings[key]):
            raise UserError(f"the file's metadata is invalid: resize has {key} "
                            f'{settings[key]!r:.80}')  # fmt: skip
    return settings


def value_of(
    metadata: Mapping[str, str], key: str, is_valid: Callable[[Any], bool], default: Any
) -> Any:
    """A JSON value of the metadata.

    Raises:
        UserError: If it is invalid.
    """
    if key not in metadata:
        return default
    value = parse_json(metadata[key], f"the file's metadata: {key}")
    if not is_valid(value):
        raise UserError(f"the file's metadata is invalid: {key} is {metadata[key]!r:.80}")
    return value
