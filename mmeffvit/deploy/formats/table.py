"""The file formats of the export, by suffix."""

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

from mmeffvit.deploy.compare import (
    FLOAT,
    HALF,
    Error,
    Expect,
    Images,
    Outputs,
    check_agreement,
    compare,
    expect_graph,
    make_batches,
)
from mmeffvit.deploy.graphs import raw
from mmeffvit.deploy.graphs.base import Graph, named
from mmeffvit.deploy.graphs.metadata import model_metadata
from mmeffvit.deploy.runtime.sessions import open_model
from mmeffvit.errors import UserError
from mmeffvit.utils.files import atomic_output, check_companions
from mmeffvit.utils.optional import require

from .coreml.write import NMS_OUTPUTS, run_coreml, to_coreml
from .executorch.write import to_executorch
from .litert.write import to_litert
from .ncnn.write import to_ncnn
from .onnx.write import ExportOptions, describe_file, export_graph
from .openvino.write import to_openvino

DEFAULT_SIZE = (256, 320)  # of noise images for files with dynamic sizes


@dataclass(frozen=True)
class Format:
    """A file format.

    Args:
        what: Description.
        packages: Required packages.
        part: The part of a graph that a file contains, for images of a size.
        fixed: Whether it needs batch size 1 and a fixed size.
        half: Whether half precision is supported.
        companions: Suffixes of files written next to it.
    """

    what: str
    packages: tuple[str, ...]
    part: Callable[[Graph, tuple[int, int] | None], nn.Module] = lambda graph, size: graph
    fixed: bool = False
    half: bool = False
    companions: tuple[str, ...] = ()


FORMATS = {
    '.onnx': Format('ONNX', ('onnx', 'onnxscript', 'onnxruntime')),
    '.xml': Format('OpenVINO', ('onnx', 'onnxscript', 'openvino'), half=True, companions=('.bin',)),
    '.pte': Format('ExecuTorch with XNNPACK', ('executorch',), raw.before_nms, fixed=True),
    '.mlpackage': Format('Core ML', ('coremltools',), raw.for_vision, fixed=True, half=True),
    '.tflite': Format(
        'LiteRT (TensorFlow Lite)',
        ('litert_torch', 'ai_edge_litert'),
        raw.without_selection,
        fixed=True,
    ),
    '.param': Format(
        'ncnn',
        ('pnnx', 'ncnn'),
        raw.without_selection,
        fixed=True,
        half=True,
        companions=('.bin', '.json'),
    ),
}


def write_part(
    graph: Graph, path: Path, options: ExportOptions, metadata: Mapping[str, str], *, half: bool
) -> str:
    """Write a part of a graph; returns notes on the file for the user."""
    if path.suffix == '.onnx':
        return describe_file(export_graph(graph, path, options, metadata))
    if path.suffix == '.xml':
        with tempfile.TemporaryDirectory() as folder:
            exported = export_graph(graph, Path(folder, 'graph.onnx'), options, metadata)
            to_openvino(exported, path, half=half)
        return f'weights in {path.with_suffix(".bin").name}'
    example = torch.from_numpy(make_batches(noise_image(options.shape), options)[0])
    if path.suffix == '.pte':
        return str(to_executorch(graph, example, path))
    if path.suffix == '.mlpackage':
        metadata = {**model_metadata(graph, options.opset), **metadata}
        if isinstance(graph, raw.RawGraph):
            metadata['input_layout'] = 'image'
        if isinstance(graph, raw.VisionBoxes):
            metadata['outputs'] = json.dumps(NMS_OUTPUTS)
        to_coreml(graph, example, path, metadata=metadata, half=half)
        return 'it runs on macOS only'
    if path.suffix == '.tflite':
        metadata = {**model_metadata(graph, layout='BHWC float32'), **metadata}
        return str(to_litert(graph, example, path, metadata))
    metadata = {**model_metadata(graph, layout='CHW float32'), **metadata}
    layers = to_ncnn(graph, example, path, metadata, half=half)
    kept = ' and '.join(path.with_suffix(suffix).name for suffix in ('.bin', '.json'))
    return f'{layers.total()} layers; weights and metadata in {kept}'


def format_of(out: Path, options: ExportOptions, *, half: bool = False) -> Format:
    """The format of a file, by its suffix.

    Raises:
        UserError: If the suffix is unknown, the format does not support this size or precision, or
            a package is missing.
    """
    if out.suffix not in FORMATS:
        choices = ', '.join(f'{suffix} ({kind.what})' for suffix, kind in FORMATS.items())
        raise UserError(f'{out} has the suffix {out.suffix!r}; choose from {choices}')
    kind = FORMATS[out.suffix]
    if half and not kind.half:
        halves = ', '.join(suffix for suffix, kind in FORMATS.items() if kind.half)
        raise UserError(f'{out.suffix} is written in float32 only; use {halves}')
    if kind.fixed and options.shape is None:
        raise UserError(f'{out.suffix} needs a fixed image size; give --shape HEIGHT WIDTH')
    if kind.fixed and (options.batch or 1) != 1:
        raise UserError(f'{out.suffix} needs batch size 1, not {options.batch}')
    for package in kind.packages:
        require(package, f'Writing {out.suffix}')
    return kind


@dataclass(frozen=True)
class Written:
    """A file that agrees with its model.

    Args:
        exported: The part of the graph that it contains.
        batches: The images of the comparison.
        errors: The largest errors on them.
        text: Description of the file, and the errors.
    """

    exported: nn.Module
    batches: list[Images]
    errors: list[Error]
    text: str

    def __str__(self) -> str:
        return self.text


def write(
    graph: Graph,
    out: str | os.PathLike,
    options: ExportOptions,
    metadata: Mapping[str, str] | None = None,
    *,
    half: bool = False,
    expect: Expect | None = None,
    image: tuple[str, np.ndarray] | None = None,
) -> Written:
    """Write a graph in the format given by the suffix of ``out``, if its outputs are as expected.

    A detector's program for ExecuTorch, which has no NMS, returns candidates. Files for LiteRT and
    ncnn end with the network, those for Core ML with its own NMS, see
    :mod:`mmeffvit.deploy.graphs.raw`. They are compared after the graph's own last steps.

    Args:
        graph: The graph to export.
        out: The file; it is written atomically.
        options: Image and batch size; only ``.onnx`` and ``.xml`` support dynamic ones.
        metadata: Metadata of the file, if the format supports it: not in ``.pte``.
        half: float16 weights in ``.xml`` and ``.param``, float16 arithmetic in ``.mlpackage``.
        expect: The expected outputs, by default the graph's.
        image: Name and image for the comparison, (H, W, 3) uint8 RGB; by default noise.

    Raises:
        UserError: If it cannot be written, or disagrees with the expected outputs.
    """
    out = Path(out)
    kind = format_of(out, options, half=half)
    check_companions(out, kind.companions)
    options = ExportOptions(options.shape, 1, options.opset) if kind.fixed else options
    exported = kind.part(graph, options.shape)
    name, pixels = image or ('noise', noise_image(options.shape or DEFAULT_SIZE))
    is_coreml = out.suffix == '.mlpackage'
    with atomic_output(out) as path:
        notes = write_part(exported, path, options, metadata or {}, half=half)
        run = partial(run_coreml, path, graph=exported) if is_coreml else open_model(path).run
        finished = partial(finish, graph, exported)
        batches = make_batches(pixels, options)
        limits = HALF if half else FLOAT
        errors = compare(
            lambda images: finished(run(images), images.shape[2:]),
            expect or partial(expect_graph, graph),
            batches,
            limits,
        )
        check_agreement(errors, name)
        size = sum(item.stat().st_size for item in path.parent.rglob('*') if item.is_file())
    if exported is not graph:
        notes = f'{exported.remaining}; {notes}'
    images = 'any size' if options.shape is None else '{} x {}'.format(*options.shape)
    heading = f'{out}: {size / 2**20:.1f} MiB, {kind.what}, images of {images}; {notes}'
    text = '\n'.join([heading, f'largest errors on {name}:', *(f'  {error}' for error in errors)])
    return Written(exported, batches, errors, text)


def finish(graph: Graph, exported: Graph, found: Outputs, size: tuple[int, int]) -> Outputs:
    """Outputs of a graph from the outputs of a file of a part of it, for images of ``size``."""
    if not set(found) & set(exported.output_names):  # ExecuTorch only numbers them
        found = dict(zip(exported.output_names, found.values(), strict=True))
    if exported is graph:
        return found
    parts = [torch.from_numpy(found[name]) for name in exported.output_names]
    with torch.no_grad():
        values = exported.finish(*parts, size=size)
    return named(graph, values)


def noise_image(shape: tuple[int, int]) -> np.ndarray:
    """Reproducible noise, (H, W, 3) uint8."""
    return np.random.default_rng(0).integers(0, 256, (*shape, 3), dtype=np.uint8)
