"""Programs with a fixed input size, for runtimes that need static shapes."""

from collections.abc import Iterator
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from mmeffvit.errors import UserError
from mmeffvit.utils.quiet import quiet

ATEN = torch.ops.aten
MAX_RANK = 5  # axes of a tensor of Core ML
VIEWS = (ATEN.view.default, ATEN.reshape.default, ATEN._unsafe_view.default)
RESIZES = (ATEN.upsample_bilinear2d.vec, ATEN.upsample_nearest2d.vec)
# they broadcast, so the ranks of their inputs determine that of their output
ELEMENTWISE = (ATEN.mul.Tensor, ATEN.add.Tensor, ATEN.sub.Tensor, ATEN.relu.default)


def export_fixed(graph: nn.Module, example: Tensor, runtime: str) -> ExportedProgram:
    """Trace ``graph`` at the size of the images ``example``, without no-ops.

    Raises:
        UserError: If the program has a custom operator that the ``runtime`` lacks.
    """
    with torch.no_grad(), quiet():
        program = torch.export.export(graph, (example,))
    # functions of Python have no namespace
    others = {n.target for n in calls(program) if getattr(n.target, 'namespace', 'aten') != 'aten'}
    if foreign := sorted(map(str, others)):
        raise UserError(
            f'{runtime} has no kernel for {", ".join(foreign)}; export the backbone only '
            '(--backbone-only), or use .onnx or .xml, whose runtimes have one'
        )
    remove_idle(program)
    return program


def fixed_module(graph: nn.Module, example: Tensor, runtime: str) -> GraphModule:
    """``graph`` at the size of ``example`` as a module whose constants are computed in advance.

    Position biases, masks of patches, pooling matrices and priors depend on the size only. See
    :func:`export_fixed` for the errors.
    """
    module = export_fixed(graph, example, runtime).module()
    for node in list(module.graph.nodes):
        if node.op == 'call_module' and not node.users:  # checks of the size
            module.graph.erase_node(node)
    resize_cells(module)
    fold_constants(module)
    return module


def resize_cells(module: GraphModule) -> None:
    """Replace expansions of maps of one cell by resizes: in LiteRT's layout, expansions fail."""
    for node in list(calls(module)):
        if node.target is ATEN.expand.default and shape_of(node.args[0])[2:] == (1, 1):
            node.target = ATEN.upsample_nearest2d.vec
            node.args = (node.args[0], list(shape_of(node)[2:]), None)


@torch.no_grad()
def fold_constants(module: GraphModule) -> None:
    """Compute what does not depend on the input, in place."""
    values: dict[Node, Any] = {}
    for node in list(module.graph.nodes):
        if node.op == 'get_attr':
            values[node] = attrgetter(node.target)(module)
        elif node.op == 'call_function' and all(n in values for n in node.all_input_nodes):
            args, kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
            values[node] = node.target(*args, **kwargs)
    for node, value in values.items():
        kept = isinstance(value, Tensor) and any(user not in values for user in node.users)
        if node.op == 'call_function' and kept:
            name = f'constant_{node.name}'
            module.register_buffer(name, value.contiguous())
            with module.graph.inserting_before(node):
                constant = module.graph.get_attr(name)
            constant.meta.update(node.meta)
            node.replace_all_uses_with(constant)
    module.graph.eliminate_dead_code()
    module.recompile()


def calls(program: ExportedProgram | GraphModule) -> Iterator[Node]:
    return (node for node in program.graph.nodes if node.op == 'call_function')


def shape_of(node: Node) -> tuple[int, ...]:
    value = node.meta.get('val')
    return tuple(value.shape) if isinstance(value, Tensor) else ()


def remove_idle(program: ExportedProgram) -> None:
    """Remove resizes that do not change the size, which graphs for any size have many of."""
    for node in list(calls(program)):
        same = node.target in RESIZES and shape_of(node) == shape_of(node.args[0])
        if same and not any(user.op == 'output' for user in node.users):
            node.replace_all_uses_with(node.args[0])
            program.graph.erase_node(node)
    program.graph_module.recompile()


def lower_rank(program: ExportedProgram) -> None:
    """Remove the batch axis, of size 1, of tensors with more than five axes, for Core ML.

    Raises:
        UserError: If such a tensor has another batch size, or is not the output of a view or an
            elementwise operator.
    """
    for node in calls(program):
        shape = shape_of(node)
        if len(shape) <= MAX_RANK:
            continue
        if shape[0] != 1 or node.target not in (*VIEWS, *ELEMENTWISE):
            raise UserError(
                f'{node.target} returns a tensor of shape {shape}; Core ML has at most {MAX_RANK} '
                'axes, one more only with batch size 1'
            )
        if node.target in VIEWS:
            node.args = (node.args[0], list(shape[1:]))
        value = node.meta['val']
        with value.fake_mode:
            node.meta['val'] = value.squeeze(0)
    program.graph_module.recompile()
