"""ExecuTorch, PyTorch's runtime for phones."""

from pathlib import Path
from typing import Any

from mmeffvit.deploy.formats.base import Export, Format
from mmeffvit.deploy.runtime.sessions import Session

from .open import open_executorch


class ExecuTorch(Format):
    suffix = '.pte'
    name = 'ExecuTorch with XNNPACK'
    runtime = 'ExecuTorch'
    module = 'executorch.runtime'
    packages = ('executorch',)
    is_fixed = True

    def part(self, graph: Any, size: tuple[int, int] | None) -> Any:
        from mmeffvit.deploy.graphs.raw import before_nms

        return before_nms(graph, size)

    def write(self, export: Export, path: Path) -> str:
        from .write import to_executorch

        return str(to_executorch(export.part, export.example, path))

    def load(self, path: Path, threads: int, half: bool, device: str) -> Session:
        return open_executorch(path, threads)
