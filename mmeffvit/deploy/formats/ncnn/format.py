"""ncnn, Tencent's runtime for phones and boards."""

from pathlib import Path
from typing import Any

from mmeffvit.deploy.formats.base import Export, Format
from mmeffvit.deploy.runtime.sessions import Session

from .open import open_ncnn


class Ncnn(Format):
    suffix = '.param'
    name = runtime = 'ncnn'
    module = 'ncnn'
    packages = ('pnnx', 'ncnn')
    companions = ('.bin', '.json')
    is_fixed = True
    has_half = True
    half_setting = 'set opt.use_fp16_packed, use_fp16_storage and use_fp16_arithmetic'

    def part(self, graph: Any, size: tuple[int, int] | None) -> Any:
        from mmeffvit.deploy.graphs.raw import without_selection

        return without_selection(graph, size)

    def write(self, export: Export, path: Path) -> str:
        from .write import to_ncnn

        metadata = export.described(layout='CHW float32')
        layers = to_ncnn(export.part, export.example, path, metadata, half=export.half)
        kept = ' and '.join(path.with_suffix(suffix).name for suffix in self.companions)
        return f'{layers.total()} layers; weights and metadata in {kept}'

    def load(self, path: Path, threads: int, half: bool, device: str) -> Session:
        return open_ncnn(path, threads, half=half)
