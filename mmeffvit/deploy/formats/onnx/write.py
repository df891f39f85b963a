"""Write a graph to an ONNX file, with dynamic or fixed batch size, height and width."""

import os
from ast import literal_eval
from collections.abc import Callable, Mapping
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.export import Dim, ExportedProgram

from mmeffvit.deploy.formats.base import OPSET, Export
from mmeffvit.deploy.formats.base import ExportOptions as ExportOptions  # users import it from here
from mmeffvit.deploy.graphs.base import Graph, Preprocessing
from mmeffvit.deploy.graphs.metadata import model_metadata
from mmeffvit.deploy.graphs.plain import BackboneGraph
from mmeffvit.deploy.runtime.sessions import INPUT
from mmeffvit.errors import UserError
from mmeffvit.utils.files import atomic_output
from mmeffvit.utils.interrupts import deferred
from mmeffvit.utils.quiet import quiet

if TYPE_CHECKING:
    import onnx
    import onnx_ir

DEFERRED = 'prefer_deferred_runtime_asserts_over_guards'
SCOPES = 'pkg.torch.onnx.name_scopes'  # of a node: paths of the modules around it, its own name
EXAMPLE_SHAPE = (672, 928)  # maps of detectors have larger sides than 1, which would be constants
EXAMPLE_BATCH = 2


def trace(graph: Graph, options: ExportOptions) -> ExportedProgram:
    """Trace the graph, with the dynamic sizes of ``options``.

    Raises:
        UserError: If torch is too old, or the model reads a dynamic size in Python, as modules of
            mmdet and mmseg may do.
    """
    from torch._dynamo.exc import UserError as TorchUserError
    from torch.fx.experimental.symbolic_shapes import ConstraintViolationError

    if DEFERRED not in signature(torch.export.export).parameters:
        raise UserError(
            f'torch {torch.__version__} cannot export: it lacks {DEFERRED} of torch.export; '
            'torch 2.11 has it'
        )
    shape = options.shape or EXAMPLE_SHAPE
    images = torch.rand(options.batch or EXAMPLE_BATCH, 3, *shape) * 255
    axes = dict.fromkeys(options.dynamic_axes, Dim.DYNAMIC)
    with quiet(), torch.no_grad(), deferred():  # C++ aborts where tracing is interrupted
        try:
            return torch.export.export(
                graph,
                (images,),
                dynamic_shapes=(axes or None,),
                # sizes are checked when the graph runs; guards would specialize them
                **{DEFERRED: True},
            )
        except (TorchUserError, ConstraintViolationError) as error:
            reason = next((line for line in str(error).splitlines() if line.strip()), '')
            raise UserError(
                'the model cannot be exported with dynamic '
                f'{", ".join(options.dynamic_axes.values())} ({reason}); give --shape HEIGHT '
                'WIDTH, and --batch N if that is not enough'
            ) from error


def translations(graph: Graph) -> dict[Callable, Callable]:
    """Translations of our operators to ONNX; backbones do not use them."""
    if isinstance(graph, BackboneGraph):
        return {}  # without mmcv
    from mmeffvit.deploy.graphs.deformable_attention import onnx_sample_levels
    from mmeffvit.deploy.graphs.ops import onnx_nms_mask
    from mmeffvit.deploy.graphs.roi_align import onnx_multi_level_roi_align

    return {
        torch.ops.mmeffvit.nms_mask.default: onnx_nms_mask,
        torch.ops.mmeffvit.multi_level_roi_align.default: onnx_multi_level_roi_align,
        torch.ops.mmeffvit.sample_levels.default: onnx_sample_levels,
    }


def export_graph(
    graph: Graph,
    path: str | os.PathLike,
    options: ExportOptions | None = None,
    metadata: Mapping[str, str] | None = None,
) -> Path:
    """Write a graph to an ONNX file with standard operators only, and check it; returns its path.

    Args:
        graph: The graph to export.
        path: The file; it is written atomically.
        options: See :class:`ExportOptions`.
        metadata: Additional entries for the file's ``metadata_props``.

    Raises:
        RuntimeError: If the graph has non-standard operators.
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
            dynamic_shapes=(options.dynamic_axes,),  # their names
            custom_translation_table=translations(graph),
            verbose=False,
        )
    name_nodes(exported.model)
    exported.model.producer_name = 'mmeffvit'
    model = exported.model_proto
    described = {**model_metadata(graph, options.opset), **(metadata or {})}
    onnx.helper.set_model_props(model, described)
    foreign = {node.domain for node in exported.model.graph.all_nodes()} - {'', 'ai.onnx'}
    if foreign or model.functions:
        raise RuntimeError(f'the graph has non-standard operators of {sorted(foreign)}')
    onnx.checker.check_model(model, full_check=True)
    with atomic_output(path) as partial:
        partial.write_bytes(model.SerializeToString())
    return path


def write(export: Export, path: Path) -> str:
    return describe_file(export_graph(export.part, path, export.options, export.metadata))


def describe_file(path: Path) -> str:
    """Opset version, input and outputs of an ONNX file, in a few lines."""
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
        backbone: The trained backbone, not fused.
        path: The file.
        shape: Height and width of the images in pixels; None for dynamic sizes.
        batch: Batch size; None for a dynamic one.
        opset: ONNX opset version.
        preprocessing: Preprocessing of the images; by default the released weights'.
        metadata: See :func:`export_graph`.
    """
    graph = BackboneGraph(backbone, preprocessing).eval()
    return export_graph(graph, path, ExportOptions(shape, batch, opset), metadata)


def name_nodes(model: 'onnx_ir.Model') -> None:
    """Begin the names of nodes with the module that computes them, by its state dict name.

    Other information about tracing is removed: source lines and paths of this host.
    """
    graph = model.graph
    for node in graph.all_nodes():  # also of nested graphs
        *_, module, _ = ['', '', *literal_eval(node.metadata_props.get(SCOPES, '[]'))]
        name = node.name.removeprefix('node_')
        node.name = f'{module.removeprefix("network.")}/{name}' if module else name
        node.doc_string = None
        for part in (node, *node.outputs):
            part.metadata_props.clear()
    for part in (graph, *graph.inputs, *graph.initializers.values()):
        part.metadata_props.clear()
