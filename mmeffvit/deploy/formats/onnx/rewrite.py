"""Rewrites of a graph for onnxruntime's int8 kernels."""

from typing import Any

import numpy as np
import onnx
import onnx.inliner

SLOPE = 'gelu_slope'  # the constant 1.702
LABEL_MAP = """
<domain: "mmeffvit", opset_import: ["": 18]>
label_map <positions> (logits, sizes) => (labels) {
    parts = Constant <value_ints = [2, 1, 1]> ()
    same, rows, columns = Split <axis = 0> (sizes, parts)
    outer = Constant <value_ints = [0, 0]> ()
    rest = Constant <value_ints = [-1]> ()
    flat = Constant <value_ints = [0, 0, 1, -1]> ()
    channels = Shape <start = 1, end = 2> (logits)
    height = Shape <start = 2, end = 3> (logits)
    by_column = Transpose <perm = [0, 3, 2, 1]> (logits)
    narrow = Reshape (by_column, flat)
    wide = Resize
        <mode = "linear", axes = [1], coordinate_transformation_mode: string = @positions>
        (narrow, , , columns)
    split_columns = Concat <axis = 0> (outer, height, rest)
    all_columns = Reshape (wide, split_columns)
    by_row = Transpose <perm = [0, 2, 3, 1]> (all_columns)
    low = Reshape (by_row, flat)
    high = Resize
        <mode = "linear", axes = [1], coordinate_transformation_mode: string = @positions>
        (low, , , rows)
    split_rows = Concat <axis = 0> (outer, channels, rest)
    all_rows = Reshape (high, split_rows)
    labels = ArgMax <axis = 2, keepdims = 0> (all_rows)
}
"""


def rename_numbered(model: Any) -> None:
    """Rename constants whose names end in a digit, in place.

    onnxruntime names its copy of a shared constant by appending a digit, without checking other
    names: a copy of ``val_3`` may become ``val_38``, which exists.
    """
    renamed = {}
    for constant in model.graph.initializer:
        if constant.name[-1:].isdigit():
            renamed[constant.name] = constant.name = f'{constant.name}_constant'
    for node in model.graph.node:
        node.input[:] = [renamed.get(name, name) for name in node.input]


def approximate_gelu(model: Any) -> None:
    """Compute GELU as x sigmoid(1.702 x) (arXiv:1606.08415, section 2), in place.

    onnxruntime has int8 kernels for its parts, and none for GELU. The error is at most 0.02.
    """
    slope = onnx.numpy_helper.from_array(np.array(1.702, np.float32), SLOPE)
    nodes = []
    for node in model.graph.node:
        if node.op_type != 'Gelu':
            nodes.append(node)
            continue
        (x,), (y,) = node.input, node.output
        scaled, gate = f'{y}_scaled', f'{y}_gate'
        for kind, inputs, out in (
            ('Mul', (x, slope.name), scaled),
            ('Sigmoid', (scaled,), gate),
            ('Mul', (x, gate), y),
        ):
            nodes.append(onnx.helper.make_node(kind, inputs, [out], name=out))
    if len(nodes) > len(model.graph.node):
        model.graph.initializer.append(slope)
        del model.graph.node[:]
        model.graph.node.extend(nodes)


def drop_slopes(model: Any) -> Any:
    """Drop the factors 1.702 of int8 GELUs, in place, and return the model.

    The same bytes with a scale that is 1.702 times as large are 1.702 times the values.
    """
    graph, users = model.graph, users_of(model)
    made = {out: node for node in graph.node for out in node.output}
    constants = {
        constant.name: onnx.numpy_helper.to_array(constant) for constant in graph.initializer
    }
    for product in [node for node in graph.node if SLOPE in node.input]:
        source, (after, *_) = made.get(product.input[0]), users[product.output[0]]
        if after.op_type != 'QuantizeLinear':
            continue  # in float
        value, scale, zero_point = source.input
        scaled = np.asarray(constants[scale] * constants[SLOPE])
        name = f'{product.output[0]}_sigmoid_scale'
        graph.initializer.append(onnx.numpy_helper.from_array(scaled, name))
        for reader in users[after.output[0]]:
            reader.input[:] = value, name, zero_point
        graph.node.remove(product)
        graph.node.remove(after)
    read = users_of(model)
    unused = [constant for constant in graph.initializer if constant.name not in read]
    for constant in unused:
        graph.initializer.remove(constant)
    return model


def resize_in_two_steps(model: Any) -> Any:
    """The model with the columns of logits, then their rows resized before the argmax.

    onnxruntime's kernel for channels in the last axis computes whole rows of values if the other
    three axes are the last one, which takes a quarter of the time. Other runtimes may lack such a
    kernel, so files in float keep their resize.
    """
    graph, users = model.graph, users_of(model)
    made = {out: node for node in graph.node for out in node.output}
    function = onnx.parser.parse_function(LABEL_MAP)
    for argmax in [node for node in graph.node if node.op_type == 'ArgMax']:
        resize = made.get(argmax.input[0])
        if resize is None or resize.op_type != 'Resize' or len(resize.input) != 4:
            continue
        if users[argmax.input[0]] != [argmax]:
            continue
        given = {
            attribute.name: onnx.helper.get_attribute_value(attribute)
            for attribute in (*resize.attribute, *argmax.attribute)
        }
        if [given.get(name) for name in ('mode', 'axis', 'keepdims')] != [b'linear', 1, 0]:
            continue
        call = onnx.helper.make_node(
            function.name,
            [resize.input[0], resize.input[3]],
            argmax.output,
            domain=function.domain,
            positions=given['coordinate_transformation_mode'],
        )
        argmax.CopyFrom(call)
        graph.node.remove(resize)
    versions = {opset.domain: opset.version for opset in model.opset_import}
    function.opset_import[0].version = versions['']  # equal, or it would not be inlined
    model.functions.append(function)
    return onnx.inliner.inline_local_functions(model)


def users_of(model: Any) -> dict[str, list[Any]]:
    """The nodes that read each tensor."""
    users: dict[str, list[Any]] = {}
    for node in model.graph.node:
        for name in node.input:
            users.setdefault(name, []).append(node)
    return users
