"""OpenVINO, Intel's runtime for CPUs, GPUs and NPUs."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from mmeffvit.deploy.formats.base import Export, Format
from mmeffvit.deploy.runtime.sessions import Session

from .open import core, open_openvino


class OpenVino(Format):
    suffix = '.xml'
    name = runtime = 'OpenVINO'
    module = 'openvino'
    packages = ('onnx', 'onnxscript', 'openvino')
    companions = ('.bin',)
    has_half = True
    half_setting = "compile it with {'INFERENCE_PRECISION_HINT': 'f16'}"
    int8_source = '.onnx'
    int8_packages = ('openvino', 'nncf')

    def write(self, export: Export, path: Path) -> str:
        from mmeffvit.deploy.formats.onnx.write import export_graph

        from .write import to_openvino

        with tempfile.TemporaryDirectory() as folder:
            onnx_path = Path(folder, 'graph.onnx')
            export_graph(export.part, onnx_path, export.options, export.metadata)
            to_openvino(onnx_path, path, half=export.half)
        return f'weights in {path.with_suffix(".bin").name}'

    def load(self, path: Path, threads: int, half: bool, device: str) -> Session:
        return open_openvino(core().read_model(str(path)), threads, half=half)

    def quantizer(self, path: str | os.PathLike, images: Sequence[NDArray]) -> Any:
        from .quantize import OpenVINOQuantizer

        return OpenVINOQuantizer(path, images)
