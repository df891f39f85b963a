"""Core ML, Apple's runtime, which runs on macOS and iOS only."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from mmeffvit.deploy.formats.base import Export, Format
from mmeffvit.deploy.runtime.sessions import Session
from mmeffvit.errors import UserError


class CoreML(Format):
    suffix = '.mlpackage'
    name = runtime = 'Core ML'
    module = ''
    packages = ('coremltools',)
    is_fixed = True
    cut = 'for_vision'
    has_half = True

    def write(self, export: Export, path: Path) -> str:
        from mmeffvit.deploy.graphs.raw import RawGraph, VisionBoxes

        from .write import NMS_OUTPUTS, to_coreml

        metadata = export.described(export.options.opset)
        if isinstance(export.part, RawGraph):
            metadata['input_layout'] = 'image'
        if isinstance(export.part, VisionBoxes):
            metadata['outputs'] = json.dumps(NMS_OUTPUTS)
        to_coreml(export, path, metadata)
        return 'it runs on macOS only'

    def open(
        self, path: Path, threads: int = 0, *, half: bool = False, device: str = 'cpu'
    ) -> Session:
        raise UserError(f'{path} is opened on macOS and iOS only; use a file of another format')

    load = open

    def runner(self, path: Path, part: Any) -> Callable[[NDArray], dict[str, NDArray]]:
        from .write import run_coreml

        return partial(run_coreml, path, graph=part)
