"""What a kind of exported file is: one object says how it is written, opened and quantized."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
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

    from .onnx.write import ExportOptions


@dataclass(frozen=True)
class Export:
    """What is written to a file."""

    part: 'Graph'  # of a graph
    options: 'ExportOptions'
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


class Format(ABC):
    """A kind of exported file."""

    suffix: str
    name: str
    runtime: str
    module: str  # of the runtime; empty if it does not run here
    packages: tuple[str, ...]  # packages that write it
    companions: tuple[str, ...] = ()  # suffixes of files next to it
    is_fixed = False  # whether it needs batch size 1 and a fixed size
    cut = ''  # function of `graphs.raw` for the part of a graph that a file contains, if not all
    has_half = False  # whether it supports half precision
    half_setting = ''  # the runtime's setting for computation in float16
    int8_source = ''  # suffix of the float files that int8 files are made from; empty for none
    int8_packages: tuple[str, ...] = ()  # packages that quantize
    runs_on_gpu = False  # whether it can be opened on a GPU

    def check(self, options: 'ExportOptions', *, half: bool = False) -> None:
        """Raise UserError if files with these options cannot be written here."""
        if half and not self.has_half:
            raise UserError(f'{self.suffix} is written in float32 only; leave --half out')
        if self.is_fixed and options.shape is None:
            raise UserError(f'{self.suffix} needs a fixed image size; give --shape HEIGHT WIDTH')
        if self.is_fixed and (options.batch or 1) != 1:
            raise UserError(f'{self.suffix} needs batch size 1, not {options.batch}')
        for package in self.packages:
            require(package, f'Writing {self.suffix}')

    def part(self, graph: 'Graph', size: tuple[int, int] | None) -> Any:
        """The part of a graph that a file contains, for images of a size."""
        if not self.cut:
            return graph
        from mmeffvit.deploy.graphs import raw

        return getattr(raw, self.cut)(graph, size)

    @abstractmethod
    def write(self, export: Export, path: Path) -> str:
        """Write a file; returns notes on it for the user."""

    @abstractmethod
    def load(self, path: Path, threads: int, half: bool, device: str) -> Session:
        """See :meth:`open`."""

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
        if device != 'cpu' and not self.runs_on_gpu:
            raise UserError(f'{path} runs on the CPU, not on {device}: an .onnx file runs on both')
        with readable(path, self.companions):
            session = self.load(path, threads, half, device)
        check_input(session.shape, path)
        if not (is_dict(session.metadata) and all(map(is_text, session.metadata.values()))):
            raise UserError(f'{path}: its metadata must be strings by name')
        return session

    def runner(self, path: Path, part: Any) -> Callable[[NDArray], dict[str, NDArray]]:
        """A function that runs a file of ``part`` on images, to compare it."""
        return self.open(path).run

    def quantizer(self, path: str | os.PathLike, images: Sequence[NDArray]) -> Any:
        """A quantizer of a file with the suffix :attr:`int8_source`, calibrated on images."""
        raise NotImplementedError
