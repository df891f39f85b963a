"""What an exported file says of itself, checked: anybody may have written it."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mmeffvit.errors import UserError
from mmeffvit.utils.reading import parse_json

from .resizing import CV2

MAX_SIDE = 2**15  # pixels of an image for a model: OpenCV resizes to no more
MAX_DIVISOR = 2**10


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """While a file of ONNX is loaded.

    Raises:
        UserError: If it is missing or is none.
    """
    if not path.is_file():
        raise UserError(f'{str(path)!r} does not exist; `tools/export.py` writes such a file')
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # onnxruntime has a dozen of its own
        reason = ' '.join(str(error).split())
        raise UserError(
            f'{path} cannot be read as a model, write it again by `tools/export.py` ({reason:.200})'
        ) from error


def check_input(session: Any, path: Path) -> None:
    """Look at what a model takes.

    Raises:
        UserError: If it is not one batch of images.
    """
    inputs = [(each.name, each.type, each.shape) for each in session.get_inputs()]
    if len(inputs) != 1 or inputs[0][1] != 'tensor(float)' or len(inputs[0][2] or ()) != 4:
        raise UserError(f'{path} takes {inputs}, and not one batch of images (B, 3, H, W) in float')


def check_size(size: tuple[int, ...] | None, what: str) -> None:
    """Look at the height and the width of images for a model.

    Raises:
        UserError: If one is no number of pixels.
    """
    if size is not None and not all(is_side(side) for side in size):
        raise UserError(f'{what} is {tuple(size)}; give two whole numbers from 1 to {MAX_SIDE:,}')


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
UNRESIZED = dict(
    scale=None, keep_ratio=False, truncated=False, interpolation='bilinear', backend='cv2',
    divisor=1, rounding='down', pad=None, pad_value=0,
)  # fmt: skip


def resize_settings(metadata: Mapping[str, str]) -> dict[str, Any]:
    """How images are resized, see :func:`mmeffvit.deploy.onnx.metadata.resize_of`.

    Raises:
        UserError: If a value cannot be.
    """
    told = value_of(metadata, 'resize', lambda value: isinstance(value, dict), {})
    settings = {**UNRESIZED, **told}
    for key, fits in RESIZE.items():
        if not fits(settings[key]):
            raise UserError(f"the file's metadata cannot be used: resize has {key} "
                            f'{settings[key]!r:.80}')  # fmt: skip
    return settings


def value_of(
    metadata: Mapping[str, str], key: str, fits: Callable[[Any], bool], default: Any
) -> Any:
    """A value of the metadata in JSON.

    Raises:
        UserError: If it is another than ``fits`` takes.
    """
    if key not in metadata:
        return default
    value = parse_json(metadata[key], f"the file's metadata: {key}")
    if not fits(value):
        raise UserError(f"the file's metadata cannot be used: {key} is {metadata[key]!r:.80}")
    return value
