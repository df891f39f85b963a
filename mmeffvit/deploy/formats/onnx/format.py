"""ONNX files and ONNX Runtime."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from mmeffvit.deploy.formats.base import Export, Format
from mmeffvit.deploy.runtime.sessions import Session

from .open import open_onnx


class Onnx(Format):
    suffix = '.onnx'
    name = 'ONNX'
    runtime = 'ONNX Runtime'
    module = 'onnxruntime'
    packages = ('onnx', 'onnxscript', 'onnxruntime')
    int8_source = '.onnx'
    int8_packages = ('onnx', 'onnxruntime')
    runs_on_gpu = True

    def write(self, export: Export, path: Path) -> str:
        from .write import describe_file, export_graph

        return describe_file(export_graph(export.part, path, export.options, export.metadata))

    def load(self, path: Path, threads: int, half: bool, device: str) -> Session:
        return open_onnx(path, threads, device)

    def quantizer(self, path: str | os.PathLike, images: Sequence[NDArray]) -> Any:
        from .quantize import OnnxQuantizer

        return OnnxQuantizer(path, images)
