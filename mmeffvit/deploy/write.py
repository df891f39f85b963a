"""Write a graph in any format, if the file's outputs are as expected."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from mmeffvit.errors import UserError
from mmeffvit.utils.files import atomic_output, check_companions
from mmeffvit.utils.text import first_line

from . import compare
from .agreement import Measure, Outputs
from .compare import Expect, Images
from .formats.base import OPSET, Export
from .formats.onnx.write import ExportOptions
from .formats.table import format_of
from .graphs.base import Graph, named

DEFAULT_SIZE = (256, 320)  # of noise images for files with dynamic sizes


@dataclass(frozen=True)
class Written:
    """A file that agrees with its model."""

    exported: Graph  # the part of the graph that it contains
    batches: list[Images]  # of the comparison
    errors: list[Measure]  # the largest on them
    text: str  # description of the file, and the errors

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
    kind = format_of(out)
    kind.check(options, half=half)
    check_companions(out, kind.companions)
    options = ExportOptions(options.shape, 1, options.opset) if kind.is_fixed else options
    exported = kind.part(graph, options.shape)
    name, pixels = image or ('noise', noise_image(options.shape or DEFAULT_SIZE))
    with atomic_output(out) as path:
        notes = kind.write(Export(exported, options, metadata or {}, half), path)
        try:
            run = kind.runner(path, exported)
        except UserError as error:
            if options.opset <= OPSET:
                raise
            raise UserError(
                f'{kind.runtime} cannot run the file with --opset {options.opset}: give a lower '
                f'one, or leave it out for {OPSET} ({first_line(error)})'
            ) from error
        finished = partial(finish, graph, exported)
        batches = compare.make_batches(pixels, options)
        threshold = float((metadata or {}).get('mask_threshold', 0.5))
        limits = replace(compare.HALF if half else compare.FLOAT, mask_threshold=threshold)
        errors = compare.compare(
            lambda images: finished(run(images), images.shape[2:]),
            expect or partial(compare.expect_graph, graph),
            batches,
            limits,
        )
        compare.check_agreement(errors, name)
        size = sum(item.stat().st_size for item in path.parent.rglob('*') if item.is_file())
    if exported is not graph:
        notes = f'{exported.remaining}; {notes}'
    images = 'any size' if options.shape is None else '{} x {}'.format(*options.shape)
    heading = f'{out}: {size / 2**20:.1f} MiB, {kind.name}, images of {images}; {notes}'
    text = '\n'.join([heading, f'largest errors on {name}:', *(f'  {error}' for error in errors)])
    if [error.kind for error in errors] == [compare.UNMATCHED]:
        text += '\n  the model finds no object there: give an image with some, --image FILE'
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
