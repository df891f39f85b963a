"""Small graphs shared by the tests of several runtimes."""

from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from mmeffvit.deploy.formats.base import Export
from mmeffvit.deploy.formats.onnx.write import ExportOptions, export_backbone
from mmeffvit.deploy.graphs.plain import BackboneGraph
from mmeffvit.registry import MODELS
from tests.deploy.models import once_a_session
from tests.models.parity import randomized

SIZE = (64, 96)
SWIFTFORMER = dict(
    type='mmeffvit.SwiftFormer',
    arch=dict(channels=(16, 24, 32, 40), depths=(1, 1, 1, 1)),
    out_indices=(0, 1),
)
FIRST_STAGE = {**SWIFTFORMER, 'out_indices': (0,)}


def build(config: dict) -> torch.nn.Module:
    torch.manual_seed(0)
    return randomized(MODELS.build(config))


def graph(config: dict = SWIFTFORMER) -> BackboneGraph:
    return BackboneGraph(build(config)).eval()


def export(graph: torch.nn.Module) -> Export:
    """What a file of a graph for one image contains."""
    return Export(graph, ExportOptions(SIZE, 1), {}, half=False)


def images(batch: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.rand(batch, 3, *SIZE, generator=generator) * 255


@cache
def onnx_file() -> Path:
    """The first two stages of a SwiftFormer, for any image size; written once per session."""
    with once_a_session('tiny.onnx') as path:
        if not path.exists():
            export_backbone(build(SWIFTFORMER), path, metadata=dict(note='kept'))
    return path
