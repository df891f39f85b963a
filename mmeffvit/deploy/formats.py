"""The file formats of the export, by the ending of the file."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch

from mmeffvit.errors import UserError

from .graphs.base import Graph
from .onnx.export import ExportOptions, export_graph
from .onnx.metadata import model_metadata
from .runtimes.coreml import to_coreml
from .runtimes.executorch import to_executorch
from .runtimes.fixed_size import before_suppression
from .runtimes.openvino import to_openvino

FORMATS = {
    '.onnx': 'ONNX, for images of any size or of one',
    '.xml': 'OpenVINO, for images of any size or of one',
    '.pte': 'ExecuTorch with XNNPACK, for images of one size',
    '.mlpackage': 'Core ML, for images of one size',
}
TRIED_SIZE = (256, 320)  # of the images that a file for any size is tried on


def write(
    graph: Graph,
    out: str | os.PathLike,
    options: ExportOptions,
    metadata: Mapping[str, str] | None = None,
    *,
    half: bool = False,
) -> str:
    """Write a graph in the format that the ending of ``out`` names.

    ExecuTorch and Core ML have no suppression of overlaps: a detector's program for them gives its
    candidates, see :func:`mmeffvit.deploy.runtimes.fixed_size.before_suppression`.

    Args:
        graph: What is exported.
        out: The file; it appears whole or not at all.
        options: Size and batch; ExecuTorch and Core ML need a size, and take a batch of 1.
        metadata: Texts for the file, where the format keeps any: not in ``.pte``.
        half: float16 weights in ``.xml``, float16 arithmetic in ``.mlpackage``.

    Returns:
        What a user should know of the file.

    Raises:
        UserError: If the ending is unknown, the size is missing or the graph cannot be converted.
    """
    out = Path(out)
    if out.suffix not in FORMATS:
        choices = ', '.join(f'{ending} ({what})' for ending, what in FORMATS.items())
        raise UserError(f'{out} has the ending {out.suffix!r}; choose among {choices}')
    if half and out.suffix not in ('.xml', '.mlpackage'):
        raise UserError(f'{out.suffix} is written in float32 only; take .xml or .mlpackage')
    if out.suffix == '.onnx':
        export_graph(graph, out, options, metadata)
        return f'{out}: {FORMATS[out.suffix]}'
    if out.suffix == '.xml':
        return write_openvino(graph, out, options, metadata, half)
    return write_fixed(graph, out, options, metadata, half)


def write_openvino(
    graph: Graph,
    out: Path,
    options: ExportOptions,
    metadata: Mapping[str, str] | None,
    half: bool,
) -> str:
    images = example(options.shape or TRIED_SIZE, options.batch or 1)
    with torch.no_grad():
        expected = dict(zip(graph.output_names, graph(images), strict=True))
    expected = {name: value.numpy() for name, value in expected.items()}
    with tempfile.TemporaryDirectory() as folder:
        path = export_graph(graph, Path(folder, 'graph.onnx'), options, metadata)
        to_openvino(path, out, images.numpy(), expected, half=half)
    return f'{out}: {FORMATS[out.suffix]}; its weights are in {out.with_suffix(".bin").name}'


def write_fixed(
    graph: Graph,
    out: Path,
    options: ExportOptions,
    metadata: Mapping[str, str] | None,
    half: bool,
) -> str:
    if options.shape is None:
        raise UserError(f'{out.suffix} is for images of one size; give --shape HEIGHT WIDTH')
    if (options.batch or 1) != 1:
        raise UserError(f'{out.suffix} takes a batch of 1, not {options.batch}')
    said = FORMATS[out.suffix]
    if graph.task in ('detection', 'instance segmentation') and 'boxes' in graph.output_names:
        graph = before_suppression(graph)
        said += '; its boxes are candidates, before overlaps are suppressed'
    images = example(options.shape, 1)
    if out.suffix == '.pte':
        return f'{out}: {said}; {to_executorch(graph, images, out)}'
    described = {**model_metadata(graph, options.opset), **(metadata or {})}
    to_coreml(graph, images, out, metadata=described, half=half)
    return f'{out}: {said}; only macOS can run it'


def example(shape: tuple[int, int], batch: int) -> torch.Tensor:
    """Noise: (B, 3, H, W) from 0 to 255, the same every time."""
    generator = torch.Generator().manual_seed(0)
    return torch.rand(batch, 3, *shape, generator=generator) * 255
