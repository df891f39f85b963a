"""What is written to a file, and what a kind of file is."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mmeffvit.deploy.runtime.sessions import Session, check_input, readable
from mmeffvit.errors import UserError
from mmeffvit.utils.optional import require
from mmeffvit.utils.schema import is_dict, is_text

if TYPE_CHECKING:  # torch, which programs that only open files may lack
    from torch import Tensor

    from mmeffvit.deploy.graphs.base import Graph

OPSET = 20  # the latest one fully supported by torch, onnxscript and ONNX Runtime


@dataclass(frozen=True)
class ExportOptions:
    """Image size, batch size and opset of a file.

    Args:
        shape: Height and width of the images in pixels; None for dynamic sizes.
        batch: Batch size; None for a dynamic one.
        opset: ONNX opset version, 18 to 23.

    Raises:
        UserError: If a value is invalid.
    """

    shape: tuple[int, int] | None = None
    batch: int | None = None
    opset: int = OPSET

    def __post_init__(self) -> None:
        if self.shape is not None and min(self.shape) < 32:
            raise UserError(f'--shape is {self.shape}; sides must be at least 32 pixels')
        if self.batch is not None and self.batch < 1:
            raise UserError(f'--batch is {self.batch}; it must be at least 1')
        if not 18 <= self.opset <= 23:
            raise UserError(f'--opset is {self.opset}; choose 18 to 23')

    @property
    def dynamic_axes(self) -> dict[int, str]:
        """Dynamic axes of the images, and their names."""
        names = {} if self.batch else {0: 'batch'}
        return names if self.shape else {**names, 2: 'height', 3: 'width'}


@dataclass(frozen=True)
class Export:
    """What is written to a file."""

    part: 'Graph'  # of a graph
    options: ExportOptions
    metadata: Mapping[str, str]  # in addition to the graph's
    half: bool  # float16 instead of float32

    @property
    def example(self) -> 'Tensor':
        """Images of the file's size."""
        import torch

        shape = (1, 3, *self.options.shape)
        return torch.from_numpy(np.random.default_rng(0).uniform(0, 255, shape).astype(np.float32))

    def described(self, *options: Any, **named: Any) -> dict[str, str]:
        """All metadata of the file; for ``options`` see ``model_metadata``."""
        from mmeffvit.deploy.graphs.metadata import model_metadata

        return {**model_metadata(self.part, *options, **named), **self.metadata}


@dataclass(frozen=True, kw_only=True)
class Format:
    """A kind of exported file.

    Its folder has ``write(export, path)`` in ``write.py``, ``load(path, threads, half, device)`` in
    ``open.py`` and, for int8, ``Quantizer(path, images)`` in ``quantize.py``. If its runtime does
    not run here, ``run(path, part, images)`` in ``write.py`` takes the place of ``load``.
    """

    suffix: str
    name: str
    runtime: str
    folder: str  # its package here
    module: str  # of the runtime; empty if it does not run here
    packages: tuple[str, ...]  # packages that write it
    companions: tuple[str, ...] = ()  # suffixes of files next to it
    is_fixed: bool = False  # whether it needs batch size 1 and a fixed size
    cut: str = ''  # function of `graphs.raw` for the part of a graph in a file, if not all
    has_half: bool = False  # whether it supports half precision
    half_setting: str = ''  # the runtime's setting for computation in float16
    int8_source: str = ''  # suffix of the float files that become int8 files; empty for none
    int8_packages: tuple[str, ...] = ()  # packages that quantize
    runs_on_gpu: bool = False  # whether it can be opened on a GPU

    def check(self, options: ExportOptions, *, half: bool = False) -> None:
        """Raise UserError if files with these options cannot be written here."""
        if half and not self.has_half:
            raise UserError(f'{self.suffix} is written in float32 only; leave --half out')
        if self.is_fixed and options.shape is None:
            raise UserError(f'{self.suffix} needs a fixed image size; give --shape HEIGHT WIDTH')
        if self.is_fixed and (options.batch or 1) != 1:
            raise UserError(f'{self.suffix} needs batch size 1, not {options.batch}')
        for package in self.packages:
            require(package, f'Writing {self.suffix}')

    def find(self, name: str) -> Callable[..., Any]:
        """A function or class of the folder, imported on demand, such as ``'write:write'``."""
        return resolve_name(f'{__package__}.{self.folder}.{name}')

    def part(self, graph: 'Graph', size: tuple[int, int] | None) -> Any:
        """The part of a graph that a file contains, for images of a size."""
        if not self.cut:
            return graph
        from mmeffvit.deploy.graphs import raw

        return getattr(raw, self.cut)(graph, size)

    def write(self, export: Export, path: Path) -> str:
        """Write a file; returns notes on it for the user."""
        return self.find('write:write')(export, path)

    def open(
        self, path: Path, threads: int = 0, *, half: bool = False, device: str = 'cpu'
    ) -> Session:
        """Load a file with its runtime.

        Args:
            path: The file.
            threads: Number of threads; 0 for the runtime's default.
            half: Compute in float16 where the runtime can, instead of float32.
            device: 'cpu', or a GPU as 'cuda' or 'cuda:N'.

        Raises:
            UserError: If it is missing or cannot be read, or the runtime is not installed or cannot
                use the device.
        """
        if not self.module:
            raise UserError(f'{path} is opened on macOS and iOS only; use a file of another format')
        if device != 'cpu' and not self.runs_on_gpu:
            raise UserError(f'{path} runs on the CPU, not on {device}: an .onnx file runs on both')
        with readable(path, self.companions):
            session = self.find('open:load')(path, threads, half=half, device=device)
        check_input(session.shape, path)
        if not (is_dict(session.metadata) and all(map(is_text, session.metadata.values()))):
            raise UserError(f'{path}: its metadata must be strings by name')
        return session

    def runner(self, path: Path, part: Any) -> Callable[[NDArray], dict[str, NDArray]]:
        """A function that runs a file of ``part`` on images, to compare it."""
        return self.open(path).run if self.module else partial(self.find('write:run'), path, part)

    def quantizer(self, path: str | os.PathLike, images: Sequence[NDArray]) -> Any:
        """A quantizer of a file with the suffix :attr:`int8_source`, calibrated on images."""
        return self.find('quantize:Quantizer')(path, images)
