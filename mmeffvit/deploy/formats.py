"""The file formats of the export, by the ending of the file."""

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from mmeffvit.errors import UserError
from mmeffvit.utils.files import atomic_output
from mmeffvit.utils.onnx import run_onnx
from mmeffvit.utils.optional import require

from .compare import (
    FLOAT,
    HALF,
    Error,
    Expect,
    Images,
    Outputs,
    Run,
    compare,
    expect_graph,
    make_batches,
    refuse_disagreement,
    run_graph,
)
from .graphs.base import Graph
from .onnx.export import ExportOptions, describe_file, export_graph
from .onnx.metadata import model_metadata
from .runtimes.coreml import run_coreml, to_coreml
from .runtimes.executorch import run_executorch, to_executorch
from .runtimes.fixed_size import before_suppression
from .runtimes.openvino import run_openvino, to_openvino

TRIED_SIZE = (256, 320)  # of the noise that a file for any size is tried on


@dataclass(frozen=True)
class Format:
    """One kind of file.

    Args:
        what: In words.
        packages: That it needs here.
        write: Writes a graph, with texts for the file and perhaps in half precision; gives what a
            user should know of the file.
        run: Outputs of the file on images, or None where it cannot run.
        fixed: For one image of one size; a detector's file gives its candidates.
        half: Can be of half precision.
    """

    what: str
    packages: tuple[str, ...]
    write: Callable[[Graph, Path, ExportOptions, Mapping[str, str], bool], str]
    run: Callable[[Path, Images, Graph], Outputs | None]
    fixed: bool = False
    half: bool = False


def _write_onnx(
    graph: Graph, path: Path, options: ExportOptions, metadata: Mapping[str, str], half: bool
) -> str:
    return describe_file(export_graph(graph, path, options, metadata))


def _write_openvino(
    graph: Graph, path: Path, options: ExportOptions, metadata: Mapping[str, str], half: bool
) -> str:
    with tempfile.TemporaryDirectory() as folder:
        exported = export_graph(graph, Path(folder, 'graph.onnx'), options, metadata)
        to_openvino(exported, path, half=half)
    return f'weights in {path.with_suffix(".bin").name}'


def _write_executorch(
    graph: Graph, path: Path, options: ExportOptions, metadata: Mapping[str, str], half: bool
) -> str:
    return str(to_executorch(graph, torch.from_numpy(noise(options)), path))


def _write_coreml(
    graph: Graph, path: Path, options: ExportOptions, metadata: Mapping[str, str], half: bool
) -> str:
    metadata = {**model_metadata(graph, options.opset), **metadata}
    to_coreml(graph, torch.from_numpy(noise(options)), path, metadata=metadata, half=half)
    return 'only macOS can run it'


def _run_executorch(path: Path, images: Images, graph: Graph) -> Outputs:
    values = run_executorch(path, torch.from_numpy(images))
    return {name: value.numpy() for name, value in zip(graph.output_names, values, strict=True)}


FORMATS = {
    '.onnx': Format(
        'ONNX, for images of any size or of one',
        ('onnx', 'onnxscript', 'onnxruntime'),
        _write_onnx,
        lambda path, images, graph: run_onnx(path, images),
    ),
    '.xml': Format(
        'OpenVINO, for images of any size or of one',
        ('onnx', 'onnxscript', 'openvino'),
        _write_openvino,
        lambda path, images, graph: run_openvino(path, images),
        half=True,
    ),
    '.pte': Format(
        'ExecuTorch with XNNPACK, for images of one size',
        ('executorch',),
        _write_executorch,
        _run_executorch,
        fixed=True,
    ),
    '.mlpackage': Format(
        'Core ML, for images of one size',
        ('coremltools',),
        _write_coreml,
        lambda path, images, graph: run_coreml(path, images),
        fixed=True,
        half=True,
    ),
}


def format_of(out: Path, options: ExportOptions, *, half: bool = False) -> Format:
    """The format that the ending of a file names.

    Raises:
        UserError: If the ending is unknown, the format cannot be of this size or precision, or a
            package is missing.
    """
    if out.suffix not in FORMATS:
        choices = ', '.join(f'{ending} ({kind.what})' for ending, kind in FORMATS.items())
        raise UserError(f'{out} has the ending {out.suffix!r}; choose among {choices}')
    kind = FORMATS[out.suffix]
    if half and not kind.half:
        raise UserError(f'{out.suffix} is written in float32 only; take .xml or .mlpackage')
    if kind.fixed and options.shape is None:
        raise UserError(f'{out.suffix} is for images of one size; give --shape HEIGHT WIDTH')
    if kind.fixed and (options.batch or 1) != 1:
        raise UserError(f'{out.suffix} takes a batch of 1, not {options.batch}')
    for package in kind.packages:
        require(package, f'Writing {out.suffix}')
    return kind


def write(
    graph: Graph,
    out: str | os.PathLike,
    options: ExportOptions,
    metadata: Mapping[str, str] | None = None,
    *,
    half: bool = False,
    expect: Expect | None = None,
    image: tuple[str, np.ndarray] | None = None,
) -> str:
    """Write a graph in the format that the ending of ``out`` names, if it gives what is expected.

    ExecuTorch and Core ML have no suppression of overlaps: a detector's program for them gives its
    candidates, see :func:`mmeffvit.deploy.runtimes.fixed_size.before_suppression`; they are
    compared after the graph's own suppression.

    Args:
        graph: What is exported.
        out: The file; it appears whole or not at all.
        options: Size and batch; ExecuTorch and Core ML need a size, and take a batch of 1.
        metadata: Texts for the file, where the format keeps any: not in ``.pte``.
        half: float16 weights in ``.xml``, float16 arithmetic in ``.mlpackage``.
        expect: What the file must give, by default what the graph gives.
        image: What they are compared on, (H, W, 3) uint8 RGB after its name; by default noise.

    Returns:
        What a user should know of the file, and the largest errors.

    Raises:
        UserError: If it cannot be written so, or disagrees with what is expected.
    """
    out = Path(out)
    kind = format_of(out, options, half=half)
    options = ExportOptions(options.shape, 1, options.opset) if kind.fixed else options
    detects = kind.fixed and 'boxes' in graph.output_names
    exported = before_suppression(graph) if detects else graph
    name, pixels = image or ('noise', noise_image(options.shape or TRIED_SIZE))
    with atomic_output(out) as path:
        notes = kind.write(exported, path, options, metadata or {}, half)
        run: Run = partial(outputs_of, kind, path, graph, exported)
        errors = compare(
            run,
            expect or partial(expect_graph, graph),
            make_batches(pixels, options),
            HALF if half else FLOAT,
        )
        refuse_disagreement(errors, name)
        size = sum(item.stat().st_size for item in path.parent.rglob('*') if item.is_file())
    if detects:
        notes = f'its boxes are candidates, before overlaps are suppressed; {notes}'
    return report(f'{out}: {size / 2**20:.1f} MiB, {kind.what}; {notes}', errors, name)


def outputs_of(kind: Format, path: Path, graph: Graph, exported: Graph, images: Images) -> Outputs:
    """What a file gives, after the graph's suppression if the file has none.

    Where the file cannot run, what the graph gives that it was written from.
    """
    found = kind.run(path, images, exported)
    if found is None:
        found = run_graph(exported, images)
    if exported is graph:
        return found
    candidates = [torch.from_numpy(found[name]) for name in graph.output_names]
    with torch.no_grad():
        values = graph.suppress(*candidates, tuple(images.shape[2:]))
    return {name: value.numpy() for name, value in zip(graph.output_names, values, strict=True)}


def report(heading: str, errors: list[Error], name: str) -> str:
    return '\n'.join([heading, f'largest errors on {name}:', *(f'  {error}' for error in errors)])


def noise_image(shape: tuple[int, int]) -> np.ndarray:
    """(H, W, 3) uint8, the same every time."""
    return np.random.default_rng(0).integers(0, 256, (*shape, 3), dtype=np.uint8)


def noise(options: ExportOptions) -> Images:
    return make_batches(noise_image(options.shape), options)[0]
