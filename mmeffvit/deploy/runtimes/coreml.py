"""Core ML, Apple's runtime. Converting works anywhere, running the result on macOS only."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mmeffvit.errors import UserError
from mmeffvit.utils.optional import require
from mmeffvit.utils.quiet import quiet

from .fixed_size import export_fixed, lower_rank


def to_coreml(
    graph: nn.Module,
    example: Tensor,
    out: str | os.PathLike,
    *,
    output_names: Sequence[str] | None = None,
    metadata: Mapping[str, str] | None = None,
    half: bool = False,
) -> None:
    """Convert a graph at one input size to an ML program for iOS 16, macOS 13 or later.

    The saved package is read back, and its inputs and outputs are compared with those of the graph.

    Args:
        graph: Maps images to a tuple of tensors, in eval mode.
        example: Images (1, 3, H, W) of the size of the program.
        out: Path that ends in ``.mlpackage``, a folder.
        output_names: Names of the outputs, by default the graph's ``output_names``.
        metadata: Metadata stored in the package.
        half: Compute in float16, as Apple's Neural Engine does.

    Raises:
        UserError: If coremltools is not installed, an operator cannot be converted, or inputs or
            outputs of the package differ from the graph.
    """
    tools = require('coremltools', 'Writing .mlpackage')
    names = tuple(output_names or graph.output_names)
    program = export_fixed(graph, example, 'Core ML')
    lower_rank(program)
    model = convert(tools, program, names, half)
    model.user_defined_metadata.update(metadata or {})
    with quiet():
        model.save(str(out))
    check(out, graph, example, names)


def convert(
    tools: Any, program: torch.export.ExportedProgram, names: Sequence[str], half: bool
) -> Any:
    """Convert a traced program to an ML program.

    Raises:
        UserError: If it fails, with the message of coremltools.
    """
    precision = tools.precision.FLOAT16 if half else tools.precision.FLOAT32
    try:
        with quiet():
            return tools.convert(
                program.run_decompositions({}),
                outputs=[tools.TensorType(name=name) for name in names],
                convert_to='mlprogram',
                compute_precision=precision,
                minimum_deployment_target=tools.target.iOS16,
                skip_model_load=True,
            )
    except (NotImplementedError, ValueError, RuntimeError) as error:
        raise UserError(f'the model cannot be converted to Core ML: {error}') from error


def check(path: str | os.PathLike, graph: nn.Module, example: Tensor, names: Sequence[str]) -> None:
    """Compare the inputs and outputs of a saved package with the graph.

    Raises:
        UserError: If the name or the shape of an input or an output differs.
    """
    tools = require('coremltools', 'Reading .mlpackage')
    with torch.no_grad():
        expected = dict(zip(names, graph(example), strict=True))
    with quiet():
        found = shapes_of(tools.models.MLModel(str(path), skip_model_load=True))
    wanted = {'images': tuple(example.shape)}
    wanted |= {name: tuple(value.shape) for name, value in expected.items()}
    if found != wanted:
        raise UserError(f'the Core ML package has {found}, but the graph {wanted}')


def run_coreml(path: str | os.PathLike, images: NDArray) -> dict[str, NDArray] | None:
    """Outputs of a package by name, or None on other systems than macOS.

    Raises:
        UserError: If coremltools is not installed.
    """
    if sys.platform != 'darwin':
        return None
    tools = require('coremltools', 'Reading .mlpackage')
    with quiet():
        model = tools.models.MLModel(str(path))
    return model.predict({'images': images})


def shapes_of(model: Any) -> dict[str, tuple[int, ...]]:
    """Shapes of the inputs and outputs of a package, by name."""
    description = model.get_spec().description
    shapes = {
        feature.name: tuple(feature.type.multiArrayType.shape) for feature in description.input
    }
    for feature in description.output:
        shapes[feature.name] = tuple(feature.type.multiArrayType.shape)
    return shapes
