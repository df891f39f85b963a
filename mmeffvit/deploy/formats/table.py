"""The formats of exported files, by suffix."""

import os
from pathlib import Path

from mmeffvit.deploy.runtime.sessions import Session
from mmeffvit.errors import UserError

from .base import Format
from .coreml.format import CoreML
from .executorch.format import ExecuTorch
from .litert.format import LiteRT
from .ncnn.format import Ncnn
from .onnx.format import Onnx
from .openvino.format import OpenVino

BY_SUFFIX: dict[str, Format] = {
    each.suffix: each for each in (Onnx(), OpenVino(), ExecuTorch(), CoreML(), LiteRT(), Ncnn())
}
OPENED = tuple(suffix for suffix, each in BY_SUFFIX.items() if each.module)


def format_of(path: str | os.PathLike) -> Format:
    """The format of a file.

    Raises:
        UserError: If its suffix is unknown.
    """
    suffix = Path(path).suffix
    if suffix not in BY_SUFFIX:
        choices = ', '.join(f'{each.suffix} ({each.name})' for each in BY_SUFFIX.values())
        raise UserError(f'{path} has the suffix {suffix!r}; choose from {choices}')
    return BY_SUFFIX[suffix]


def open_model(
    path: str | os.PathLike, threads: int = 0, *, half: bool = False, device: str = 'cpu'
) -> Session:
    """Load an exported file, see :meth:`.base.Format.open`."""
    return format_of(path).open(Path(path), threads, half=half, device=device)
