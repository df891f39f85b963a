"""Programs of one input size, for runtimes that are told every shape beforehand."""

import copy
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.fx import Node

from mmeffvit.errors import UserError
from mmeffvit.utils.quiet import quiet

ATEN = torch.ops.aten
VIEWS = (ATEN.view.default, ATEN.reshape.default, ATEN._unsafe_view.default)
RESIZES = (ATEN.upsample_bilinear2d.vec, ATEN.upsample_nearest2d.vec)
SPLITS = (ATEN.split_with_sizes.default, ATEN.split.sizes)
# follow the rules of broadcasting, so the ranks of their inputs make that of their output
ELEMENTWISE = (ATEN.mul.Tensor, ATEN.add.Tensor, ATEN.sub.Tensor, ATEN.relu.default)


def export_fixed(graph: nn.Module, example: Tensor, runtime: str) -> ExportedProgram:
    """Trace ``graph`` at the size of ``example``, without resizes that change no size.

    Args:
        graph: From images to a tuple of tensors, in eval mode.
        example: Images (B, 3, H, W).
        runtime: That the program is for, to be named in a message.

    Raises:
        UserError: If the program has an operator that only torch and ONNX know.
    """
    with torch.no_grad(), quiet():
        program = torch.export.export(graph, (example,))
    foreign = sorted(
        {str(node.target) for node in calls(program) if namespace(node) not in ('aten', '')}
    )
    if foreign:
        raise UserError(
            f'{runtime} has no kernel for {", ".join(foreign)}; export the backbone alone '
            '(--backbone-only), or .onnx or .xml, whose runtimes have one'
        )
    drop_idle_resizes(program)
    return program


def before_suppression(graph: nn.Module) -> nn.Module:
    """A detector's graph that gives its candidates: the same outputs before the suppression.

    Boxes (B, N, 4), scores (B, N) and labels (B, N) in the order of the levels; scores of -1 mark
    empty places. The program that runs it drops overlaps of a label by itself.

    Raises:
        UserError: If the graph has no suppression as its last step.
    """
    if not hasattr(graph, 'suppress'):
        raise UserError(
            f'{type(graph).__name__} chooses regions inside the network, for which only .onnx and '
            '.xml have operators; take one of these, or the backbone alone (--backbone-only)'
        )
    graph = copy.copy(graph)
    graph.suppress = lambda boxes, scores, labels, size: (boxes, scores, labels)
    return graph


def calls(program: ExportedProgram) -> Iterator[Node]:
    return (node for node in program.graph.nodes if node.op == 'call_function')


def namespace(node: Node) -> str:
    """Library of an operator, '' for a function of Python."""
    return getattr(node.target, 'namespace', '')


def shape_of(node: Node) -> tuple[int, ...]:
    value = node.meta.get('val')
    return tuple(value.shape) if isinstance(value, Tensor) else ()


def drop_idle_resizes(program: ExportedProgram) -> None:
    """Take out resizes to the size that a map has, which graphs for any size are full of."""
    for node in list(calls(program)):
        idle = node.target in RESIZES and shape_of(node) == shape_of(node.args[0])
        if idle and not any(user.op == 'output' for user in node.users):
            node.replace_all_uses_with(node.args[0])
            program.graph.erase_node(node)
    program.graph_module.recompile()


def split_by_slices(program: ExportedProgram) -> None:
    """Write a split of a map as slices, which XNNPACK has."""
    for node in list(calls(program)):
        if node.target not in SPLITS:
            continue
        source, sizes, *dim = node.args
        axis = dim[0] if dim else node.kwargs.get('dim', 0)
        for item in list(node.users):
            start = sum(sizes[: item.args[1]])
            bounds = (source, axis, start, start + sizes[item.args[1]])
            with program.graph.inserting_before(item):
                part = program.graph.call_function(ATEN.slice.Tensor, bounds)
            part.meta.update(item.meta)
            item.replace_all_uses_with(part)
            program.graph.erase_node(item)
        program.graph.erase_node(node)
    program.graph_module.recompile()


def lower_rank(program: ExportedProgram, highest: int = 5) -> None:
    """Take the batch axis, which is 1, off tensors with more than ``highest`` axes.

    Raises:
        UserError: If such a tensor has another batch, or comes from an operator that is no view and
            works on more than one element.
    """
    for node in calls(program):
        shape = shape_of(node)
        if len(shape) <= highest:
            continue
        if shape[0] != 1 or node.target not in (*VIEWS, *ELEMENTWISE):
            raise UserError(
                f'{node.target} gives a tensor of shape {shape}; Core ML has at most {highest} '
                'axes, one more only with a batch of 1'
            )
        if node.target in VIEWS:
            node.args = (node.args[0], list(shape[1:]))
        value = node.meta['val']
        with value.fake_mode:
            node.meta['val'] = value.squeeze(0)
    program.graph_module.recompile()
