"""Write a graph to a file of ONNX, dynamic in batch, height and width or of one size."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.export import Dim, ExportedProgram

from mmeffvit.deploy.graphs.backbone import BackboneGraph
from mmeffvit.deploy.graphs.base import Graph, Preprocessing
from mmeffvit.deploy.graphs.ops import translations
from mmeffvit.errors import UserError
from mmeffvit.utils.files import atomic_output
from mmeffvit.utils.quiet import quiet

from .metadata import model_metadata

if TYPE_CHECKING:
    import onnx
    import onnx_ir

OPSET = 20  # the newest that all of torch, onnxscript and ONNX Runtime write and run in full
INPUT = 'images'
# no map of a detector is one cell here: a side of 1 would be taken for a constant
EXAMPLE_SHAPE = (672, 928)
EXAMPLE_BATCH = 2


@dataclass(frozen=True)
class ExportOptions:
    """What a file is made for.

    Args:
        shape: Height and width of every image in pixels; None leaves them open.
        batch: Images of every batch; None leaves it open.
        opset: Version of the ONNX operators.
    """

    shape: tuple[int, int] | None = None
    batch: int | None = None
    opset: int = OPSET

    @property
    def example_shape(self) -> tuple[int, int, int, int]:
        """Of the images a graph is traced with."""
        return (self.batch or EXAMPLE_BATCH, 3, *(self.shape or EXAMPLE_SHAPE))

    @property
    def dynamic_axes(self) -> dict[int, str]:
        """Axes of the images that are left open, and their names."""
        names = {} if self.batch else {0: 'batch'}
        return names if self.shape else {**names, 2: 'height', 3: 'width'}


def trace(graph: Graph, options: ExportOptions) -> ExportedProgram:
    """The graph as one program without branches, for the sizes that ``options`` leave open.

    Raises:
        UserError: If the model asks Python for a size that is open: a host's module may.
    """
    from torch._dynamo.exc import UserError as TorchUserError
    from torch.fx.experimental.symbolic_shapes import ConstraintViolationError

    images = torch.rand(options.example_shape) * 255
    axes = dict.fromkeys(options.dynamic_axes, Dim.DYNAMIC)
    with quiet(), torch.no_grad():
        try:
            return torch.export.export(
                graph,
                (images,),
                dynamic_shapes=(axes or None,),
                # sizes are compared when the graph runs; ruling sizes out here would fix them
                prefer_deferred_runtime_asserts_over_guards=True,
            )
        except (TorchUserError, ConstraintViolationError) as error:
            reason = next((line for line in str(error).splitlines() if line.strip()), '')
            raise UserError(
                f'the model cannot be exported for {", ".join(options.dynamic_axes.values())} left '
                f'open ({reason}); give --shape HEIGHT WIDTH, and --batch N if that is not enough'
            ) from error


def export_graph(
    graph: Graph,
    path: str | os.PathLike,
    options: ExportOptions | None = None,
    metadata: Mapping[str, str] | None = None,
) -> Path:
    """Write a graph to a file of ONNX with standard operators only, and check it.

    Args:
        graph: What is exported.
        path: The file; it appears when it is whole.
        options: See :class:`ExportOptions`.
        metadata: Texts by name for the file's ``metadata_props``, beside those of the graph.

    Returns:
        ``path``.

    Raises:
        RuntimeError: If the graph does not stay within the standard operators.
    """
    import onnx

    options = options or ExportOptions()
    path = Path(path)
    program = trace(graph, options)
    with quiet():
        exported = torch.onnx.export(
            program,
            (),
            dynamo=True,
            opset_version=options.opset,
            input_names=[INPUT],
            output_names=list(graph.output_names),
            custom_translation_table=translations(),
            verbose=False,
            optimize=False,
        )
        tidy(exported.model)
    model = exported.model_proto
    name_axes(model, graph, options)
    described = {**model_metadata(graph, options.opset), **(metadata or {})}
    onnx.helper.set_model_props(model, described)
    strip(model)
    foreign = {node.domain for node in all_nodes(model)} - {'', 'ai.onnx'}
    if foreign or model.functions:
        raise RuntimeError(f'the graph has operators of {sorted(foreign)} beside standard ones')
    onnx.checker.check_model(model, full_check=True)
    with atomic_output(path) as partial:
        partial.write_bytes(model.SerializeToString())
    return path


def describe_file(path: Path) -> str:
    """Version, input and outputs of a file of ONNX, in a few lines."""
    import onnx

    model = onnx.load(path)

    def line(value: 'onnx.ValueInfoProto') -> str:
        sides = value.type.tensor_type.shape.dim
        shape = ', '.join(side.dim_param or str(side.dim_value) for side in sides)
        return f'\n  {value.name} ({shape})'

    values = ''.join(map(line, (*model.graph.input, *model.graph.output)))
    return f'opset {model.opset_import[0].version}{values}'


def export_backbone(
    backbone: nn.Module,
    path: str | os.PathLike,
    shape: tuple[int, int] | None = None,
    *,
    batch: int | None = None,
    opset: int = OPSET,
    preprocessing: Preprocessing | None = None,
    metadata: Mapping[str, str] | None = None,
) -> Path:
    """Write a backbone of ours to ONNX: images in, maps out, named after their strides.

    Args:
        backbone: With its weights, not fused.
        path: The file.
        shape: Height and width of every image in pixels; None leaves them open.
        batch: Images of every batch; None leaves it open.
        opset: Version of the ONNX operators.
        preprocessing: By default what the released weights of the backbone expect.
        metadata: See :func:`export_graph`.
    """
    graph = BackboneGraph(backbone, preprocessing).eval()
    return export_graph(graph, path, ExportOptions(shape, batch, opset), metadata)


def tidy(model: 'onnx_ir.Model') -> None:
    """Compute what is constant, and take out what is there twice or unused.

    The exporter's own optimizer also tries hundreds of patterns on every node: that takes most of
    the time, finds nothing here, and ONNX Runtime fuses by itself.
    """
    from onnx_ir.passes import common
    from onnxscript.optimizer import fold_constants

    fold_constants(model)
    for tidying in (
        common.CommonSubexpressionEliminationPass(),
        common.RemoveUnusedNodesPass(),
        common.DeduplicateInitializersPass(),
    ):
        tidying(model)


def name_axes(model: 'onnx.ModelProto', graph: Graph, options: ExportOptions) -> None:
    """Name the open axes of the images, and those of the outputs that equal them."""
    image_dims = model.graph.input[0].type.tensor_type.shape.dim
    renamed = {}
    for axis, name in options.dynamic_axes.items():
        renamed[image_dims[axis].dim_param] = name
    values = (*model.graph.input, *model.graph.output, *model.graph.value_info)
    for value in values:
        for dim in value.type.tensor_type.shape.dim:
            if dim.HasField('dim_param'):
                dim.dim_param = renamed.get(dim.dim_param, dim.dim_param)


def strip(model: 'onnx.ModelProto') -> None:
    """Take out what tells of the tracing only: source lines and names of this machine."""
    model.producer_name = 'mmeffvit'
    for node in all_nodes(model):
        del node.metadata_props[:]
        node.doc_string = ''
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        del value.metadata_props[:]
    for tensor in model.graph.initializer:
        del tensor.metadata_props[:]
    del model.graph.metadata_props[:]


def all_nodes(model: 'onnx.ModelProto') -> 'Iterator[onnx.NodeProto]':
    """The nodes of the graph and of the graphs inside them."""
    waiting = [model.graph]
    while waiting:
        for node in waiting.pop().node:
            yield node
            waiting += [a.g for a in node.attribute if a.HasField('g')]
