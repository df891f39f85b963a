"""Core ML: Apple's runtime. It converts and saves anywhere; only macOS can run the result."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mmeffvit.deploy.agreement import largest_error
from mmeffvit.errors import UserError
from mmeffvit.utils.files import atomic_output
from mmeffvit.utils.optional import quietly, require

from .fixed_size import export_fixed, lower_rank

TOLERANCE = {False: 1e-3, True: 2e-2}  # by half precision; of the largest value of an output


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

    Everywhere the saved package is read back and its inputs and outputs are compared with the
    graph's; on macOS it also runs, and its outputs are compared.

    Args:
        graph: From images to a tuple of tensors, in eval mode; ``output_names`` may be its
            attribute.
        example: Images (1, 3, H, W) of the size of the program.
        out: Path that ends in ``.mlpackage``, a folder.
        output_names: Names of the outputs.
        metadata: Texts kept in the package.
        half: Compute in float16, as Apple's neural engine does.

    Raises:
        UserError: If coremltools is not installed, an operator cannot be converted, or the package
            is not what the graph says.
    """
    tools = require('coremltools', 'Writing .mlpackage')
    names = tuple(output_names or graph.output_names)
    program = export_fixed(graph, example, 'Core ML')
    lower_rank(program)
    model = convert(tools, program, names, half)
    model.user_defined_metadata.update(metadata or {})
    with atomic_output(Path(out)) as partial:
        with quietly():
            model.save(str(partial))
        check(tools, partial, graph, example, names, half)


def convert(
    tools: Any, program: torch.export.ExportedProgram, names: Sequence[str], half: bool
) -> Any:
    """The ML program of a traced one.

    Raises:
        UserError: With what coremltools says, if it cannot.
    """
    precision = tools.precision.FLOAT16 if half else tools.precision.FLOAT32
    try:
        with quietly():
            return tools.convert(
                program.run_decompositions({}),
                outputs=[tools.TensorType(name=name) for name in names],
                convert_to='mlprogram',
                compute_precision=precision,
                minimum_deployment_target=tools.target.iOS16,
                skip_model_load=True,
            )
    except (NotImplementedError, ValueError, RuntimeError) as error:
        raise UserError(f'Core ML cannot take the model: {error}') from error


def check(
    tools: Any,
    path: Path,
    graph: nn.Module,
    example: Tensor,
    names: Sequence[str],
    half: bool,
) -> None:
    """Compare a saved package with the graph that it comes from.

    Raises:
        UserError: If an input or an output has another name or shape or, on macOS, other values.
    """
    runs_here = sys.platform == 'darwin'
    with torch.no_grad():
        expected = dict(zip(names, graph(example), strict=True))
    with quietly():
        model = tools.models.MLModel(str(path), skip_model_load=not runs_here)
    found = described(model)
    wanted = {'images': tuple(example.shape)}
    wanted |= {name: tuple(value.shape) for name, value in expected.items()}
    if found != wanted:
        raise UserError(f'the Core ML package has {found}, the graph {wanted}')
    if not runs_here:
        return
    predicted = model.predict({'images': example.numpy()})
    for name, value in expected.items():
        error = largest_error(value.numpy(), predicted[name])
        if not error <= TOLERANCE[half]:
            raise UserError(
                f'output {name!r} of the Core ML package differs by {error:.2g} of its largest '
                f'value, more than {TOLERANCE[half]}; it is not written'
            )


def described(model: Any) -> dict[str, tuple[int, ...]]:
    """Shapes of the inputs and outputs of a package, by name.

    A package says the rank of an output only through its program; there its shape is.
    """
    description = model.get_spec().description
    shapes = {
        feature.name: tuple(feature.type.multiArrayType.shape) for feature in description.input
    }
    for feature in description.output:
        shapes[feature.name] = tuple(feature.type.multiArrayType.shape)
    return shapes
