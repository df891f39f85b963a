"""An exported file, opened in the runtime it is for, and checks of its outputs."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmeffvit.deploy.agreement import OBJECTS
from mmeffvit.errors import UserError
from mmeffvit.utils.text import as_user_error

from .resizing import check_size, fixed_size

INPUT = 'images'  # its name in every format
MAX_LABELS = 2**16 - 1  # label maps are written with 16 bits


@dataclass(frozen=True)
class Session:
    """A loaded file."""

    shape: tuple[Any, ...]  # (B, 3, H, W) of the images; sizes that are not fixed are not integers
    outputs: tuple[str, ...]  # names
    metadata: Mapping[str, str]
    compute: Callable[[NDArray], dict[str, NDArray]]  # outputs by name for images (B, 3, H, W)

    def run(self, images: NDArray) -> dict[str, NDArray]:
        """Outputs by name for images (B, 3, H, W).

        Raises:
            UserError: If the file does not take them, the runtime fails, or objects or a label map
                are not in our layout.
        """
        with as_user_error(f'the model does not run on images of {images.shape}'):
            outputs = self.compute(images)
        check_outputs(outputs, images)
        return outputs


@contextmanager
def readable(path: Path, companions: Iterable[str] = ()) -> Iterator[None]:
    """Context for loading an exported file; UserError if it is missing or invalid.

    ``companions`` are the suffixes of files next to it that it needs.
    """
    if not path.is_file():
        raise UserError(f'{str(path)!r} does not exist; `mmeffvit export` writes such a file')
    for other in map(path.with_suffix, companions):
        if not other.is_file():
            raise UserError(f'{path} needs {other.name} of the same export in the same folder, '
                            'which is not there')  # fmt: skip
    with as_user_error(f'{path} cannot be read as a model, write it again with `mmeffvit export`'):
        yield


def check_input(shape: tuple[Any, ...], path: Path) -> None:
    """Raise UserError unless a model takes one batch of images.

    The shape of its input is empty if that is not one tensor of floats.
    """
    if len(shape) != 4 or (isinstance(shape[1], int) and shape[1] != 3):
        takes = f'images of shape {shape}' if shape else 'other inputs'
        raise UserError(f'{path} takes {takes}, not one batch of images (B, 3, H, W) in float')
    check_size(fixed_size(shape), f'the size of the images of {path}')


def check_outputs(outputs: Mapping[str, NDArray], images: NDArray) -> None:
    """Raise UserError if a shape, type or value of objects, logits or a label map is wrong."""
    count, _, height, width = images.shape
    wanted: dict[str, tuple[str, tuple[int, ...]]] = {}  # kinds of NumPy types, and shapes
    if others := [name for name, value in outputs.items() if not isinstance(value, np.ndarray)]:
        raise UserError(f'the file returns {", ".join(others)}, which must be tensors')
    if {*OBJECTS[:2]} <= set(outputs):
        number = outputs['boxes'].shape[1:2] or (0,)
        rest = () if 'labels' in outputs else outputs['scores'].shape[2:3]  # before NMS: classes
        wanted = dict(boxes=('f', (count, *number, 4)), scores=('f', (count, *number, *rest)))
        wanted |= dict(labels=('iu', (count, *number))) if 'labels' in outputs else {}
        if 'masks' in outputs:
            sides = [max(side, 1) for side in outputs['masks'].shape[2:4]] or [1]
            wanted['masks'] = 'f', (count, *number, sides[0], sides[-1])
    if 'logits' in outputs:
        sides = [max(side, 1) for side in outputs['logits'].shape[1:]]
        wanted['logits'] = 'f', (count, *sides[:3], *[1] * (3 - len(sides)))
    if 'label_map' in outputs:
        wanted['label_map'] = 'iu', (count, height, width)
    for name, (kinds, shape) in wanted.items():
        value = outputs[name]
        if value.dtype.kind not in kinds or value.shape != shape:
            raise UserError(
                f'the file returns {name} of shape {value.shape} and type {value.dtype}; it must '
                f'return {"integers" if kinds == "iu" else "floats"} of shape {shape}'
            )
        if kinds == 'f' and not np.isfinite(value).all():
            raise UserError(f'the file returns {name} that are not finite')
    if 'label_map' in wanted:
        check_labels(outputs['label_map'], MAX_LABELS)


def check_labels(labels: NDArray, limit: int) -> None:
    """Raise UserError if one cannot be the label of one of ``limit`` classes."""
    if labels.size and not (labels.min() >= 0 and labels.max() < limit):
        raise UserError(f'the file returns labels from {labels.min()} to {labels.max()}; valid '
                        f'ones are 0 to {limit - 1:,}')  # fmt: skip


def check_images(images: NDArray, shape: tuple[int, ...]) -> None:
    """Raise UserError if the images are not of the only shape of a file."""
    if images.shape != shape:
        raise UserError(f'the file takes images of {shape}, not {images.shape}')
