"""LiteRT, formerly TensorFlow Lite, the runtime of Android phones."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from mmeffvit.deploy.formats.base import Export, Format
from mmeffvit.deploy.runtime.sessions import Session

from .open import open_litert


class LiteRT(Format):
    suffix = '.tflite'
    name = 'LiteRT (TensorFlow Lite)'
    runtime = 'LiteRT'
    module = 'ai_edge_litert'
    packages = ('litert_torch', 'ai_edge_litert')
    is_fixed = True
    cut = 'without_selection'
    int8_source = '.tflite'
    int8_packages = ('ai_edge_litert', 'ai_edge_quantizer')

    def write(self, export: Export, path: Path) -> str:
        from .write import to_litert

        metadata = export.described(layout='BHWC float32')
        return str(to_litert(export, path, metadata))

    def load(self, path: Path, threads: int, half: bool, device: str) -> Session:
        return open_litert(path, threads)

    def quantizer(self, path: str | os.PathLike, images: Sequence[NDArray]) -> Any:
        from .quantize import LiteRTQuantizer

        return LiteRTQuantizer(path, images)
