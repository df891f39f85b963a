"""ncnn, Tencent's runtime for phones and boards, through pnnx."""

import json
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path

import torch
from torch.fx import GraphModule, Node

from mmeffvit.deploy.formats.base import Export
from mmeffvit.deploy.formats.fixed_size import ATEN, calls, fixed_module, shape_of
from mmeffvit.deploy.runtime.sessions import INPUT
from mmeffvit.errors import UserError
from mmeffvit.utils.optional import require

HIGHEST = torch.finfo(torch.float32).max


def write(export: Export, path: Path) -> str:
    layers = to_ncnn(export, path, export.described(layout='CHW float32'))
    kept = ' and '.join(path.with_suffix(suffix).name for suffix in ('.bin', '.json'))
    return f'{layers.total()} layers; weights and metadata in {kept}'


def to_ncnn(export: Export, out: Path, metadata: Mapping[str, str]) -> Counter[str]:
    """Convert a graph to ncnn, and return the number of layers by type.

    The weights are next to ``out`` in ``.bin``, the metadata in ``.json``. Blobs keep the graph's
    names: ``images`` and its ``output_names``, without the batch axis.

    Raises:
        UserError: If pnnx or ncnn is not installed, or ncnn has no layer for an operator; the
            message names the operators and the modules that call them.
    """
    pnnx = require('pnnx', 'Writing .param')
    example = export.example
    module = fixed_module(export.part, example, 'ncnn')
    use_ncnn_operators(module)
    with tempfile.TemporaryDirectory() as folder:
        traced, param = Path(folder, 'graph.pt'), Path(folder, 'graph.ncnn.param')
        with torch.no_grad():
            program = torch.jit.trace(module, (example,), check_trace=False)
        traced.write_bytes(program.save_to_buffer())  # to a full disk, `save` would end the process
        done = subprocess.run(
            [pnnx.EXEC_PATH, traced.name, f'fp16={int(export.half)}'],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode or not param.exists():
            message = ' '.join(done.stdout.split())
            raise UserError(f'pnnx cannot convert the model to ncnn: {message[-300:]}')
        text = param.read_text()
        layers = check_layers(text, module)
        weights = param.with_suffix('.bin').read_bytes()
    out.write_text(name_blobs(text, export.part.output_names, tuple(example.shape[2:])))
    out.with_suffix('.bin').write_bytes(weights)
    out.with_suffix('.json').write_text(json.dumps(dict(metadata), indent=1))
    return layers


def use_ncnn_operators(module: GraphModule) -> None:
    """Replace operators that pnnx does not know by equal ones, in place."""
    for node in list(calls(module)):
        if node.target is ATEN.clamp_min.default:
            node.target, node.args = ATEN.clamp.default, (*node.args, HIGHEST)
        elif node.target is ATEN.view_as.default:
            source, shape = node.args[0], shape_of(node)
            if shape == (1, *shape_of(source)):  # the batch axis, which ncnn does not have
                node.replace_all_uses_with(source)
            node.target, node.args = ATEN.view.default, (source, list(shape))
        elif node.target is ATEN.matmul.default and len(shape_of(node)) == 4:
            lift_matrices(module, node)
    module.graph.eliminate_dead_code()
    module.recompile()


def lift_matrices(module: GraphModule, product: Node) -> None:
    """Add two axes to constant matrices in a product with maps: pnnx would ignore the channels."""
    for source in product.args:
        if source.op == 'get_attr' and len(shape_of(source)) == 2:
            name = f'maps_{source.name}'
            module.register_buffer(name, attrgetter(source.target)(module)[None, None].clone())
            with module.graph.inserting_before(product):
                product.replace_input_with(source, module.graph.get_attr(name))


def check_layers(param: str, module: GraphModule) -> Counter[str]:
    """Count the layers of a ``.param`` file by type; UserError if ncnn does not have one."""
    ncnn = require('ncnn', 'Writing .param')
    layers = Counter(line.split()[0] for line in param.splitlines()[2:])
    unknown = [kind for kind in layers if ncnn.create_layer(kind) is None]
    if unknown:
        named = '; '.join(f'{kind} in {", ".join(modules_of(kind, module))}' for kind in unknown)
        raise UserError(f'ncnn has no layer for {named}')
    return layers


def modules_of(kind: str, module: GraphModule) -> list[str]:
    """Paths of the modules that call an operator, such as ``aten::roll``."""
    found = {}
    for node in calls(module):
        stack = node.meta.get('nn_module_stack')
        if stack and getattr(node.target, '_schema', None) and node.target._schema.name == kind:
            found[list(stack.values())[-1][0]] = None
    return list(found)


def name_blobs(param: str, names: tuple[str, ...], size: tuple[int, int]) -> str:
    """A ``.param`` file with named inputs and outputs, and height and width of the images.

    pnnx writes ``in0``, ``out0`` and so on, and no size.
    """
    renamed = {'in0': INPUT} | {f'out{i}': name for i, name in enumerate(names)}
    first, counts, *layers = param.splitlines()
    lines = []
    for line in layers:
        kind, name, inputs, outputs, *rest = line.split()
        blobs = int(inputs) + int(outputs)
        rest[:blobs] = [renamed.get(blob, blob) for blob in rest[:blobs]]
        if kind == 'Input':
            rest[blobs:] = [f'0={size[1]}', f'1={size[0]}', '2=3']  # width, height, channels
        lines.append(f'{kind:<24} {name:<24} {inputs} {outputs} {" ".join(rest)}')
    return '\n'.join([first, counts, *lines, ''])
