"""Label maps without full-size logits, in ONNX.

A segmentor resizes its logits to the image and takes the argmax, which for 150 classes takes longer
than the network. Between four neighboring cells every value is a weighted mean of their logits. The
mean of the four winners is nowhere above the best of them: a class can win between the cells only
if it reaches that mean in one of them. Of a trained model's logits these are a few classes, which
alone are resized. The arithmetic is that of ONNX Runtime's ``Resize``, whose label maps are the
same to the bit; another runtime may round ties differently.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import onnx_ir as ir
from onnx_ir.passes import common
from onnxscript import BOOL, FLOAT, INT64, script
from onnxscript import opset18 as op  # the operators here are the same in later ones

if TYPE_CHECKING:
    import onnx

MIN_CLASSES = 32  # with fewer classes, resizing all logits is about as fast
HALF_PIXEL = ('half_pixel', 'pytorch_half_pixel')  # they differ for a side of one pixel only
ALIGNED = 'align_corners'


@script(default_opset=op)
def cells_of_pixels(side: INT64[...], pixels: INT64[...], aligned: BOOL):
    """The cell at or before every pixel, and the distances to it and to the next cell."""
    cells = op.Cast(side, to=1)
    numbers = op.Range(op.Constant(value_int=0), op.Squeeze(pixels), op.Constant(value_int=1))
    scale = op.Cast(pixels, to=1) / cells
    half = op.Constant(value_float=0.5)
    last = cells - op.Constant(value_float=1.0)
    one = op.Constant(value_float=1.0)
    gaps = op.Max(op.Cast(pixels, to=1) - one, one)
    from_corners = op.Cast(numbers, to=1) * last / gaps
    place = op.Where(aligned, from_corners, (op.Cast(numbers, to=1) + half) / scale - half)
    place = op.Min(op.Max(place, op.Constant(value_float=0.0)), last)
    first = op.Floor(place)
    second = op.Min(first + op.Constant(value_float=1.0), last)
    at_edge = op.Equal(first, second)
    to_first = op.Where(at_edge, half, place - first)
    to_second = op.Where(at_edge, half, second - place)
    return op.Cast(first, to=7), to_first, to_second


@script(default_opset=op)
def neighbors(cells):
    """The cells to the right, below, and both: (B, h, w, C) each; edges are repeated."""
    one = op.Constant(value_ints=[1])
    axes = op.Constant(value_ints=[1, 2])
    height = op.Shape(cells, start=1, end=2)
    width = op.Shape(cells, start=2, end=3)
    padded = op.Pad(cells, op.Constant(value_ints=[0, 0, 0, 0, 0, 1, 1, 0]), mode='edge')
    next_height = height + one
    next_width = width + one
    right = op.Slice(
        padded, op.Constant(value_ints=[0, 1]), op.Concat(height, next_width, axis=0), axes
    )
    below = op.Slice(
        padded, op.Constant(value_ints=[1, 0]), op.Concat(next_height, width, axis=0), axes
    )
    both = op.Slice(
        padded, op.Constant(value_ints=[1, 1]), op.Concat(next_height, next_width, axis=0), axes
    )
    return right, below, both


@script(default_opset=op)
def above_mean(values: FLOAT[...], winners: INT64[...]) -> FLOAT[...]:
    """Logits (B, h, w, C) minus the mean of those of the winners (B, h, w, 4)."""
    last = op.Constant(value_ints=[-1])
    return values - op.ReduceMean(op.GatherElements(values, winners, axis=3), last)


@script(default_opset=op)
def of_pixels(values: FLOAT[...], classes: INT64[...], y: INT64[...], x: INT64[...]) -> FLOAT[...]:
    """Logits (B, h, w, C) of some classes (B, h, w, k) -> (B, k, H, W), those of a pixel's cell."""
    chosen = op.Transpose(op.GatherElements(values, classes, axis=3), perm=[0, 3, 1, 2])
    return op.Gather(op.Gather(chosen, x, axis=3), y, axis=2)


@script(default_opset=op)
def resized_argmax(
    logits: FLOAT[...], shape: INT64[...], transformation: str, align_corners: int
) -> INT64[...]:
    """``ArgMax(Resize(logits, shape))``: (B, C, h, w) -> (B, H, W).

    ``transformation`` is that of the coordinates, and ``align_corners`` says if it is of this name.
    """
    one = op.Constant(value_ints=[1])
    all_axes = op.Constant(value_ints=[0, 1, 2, 3])
    cells = op.Transpose(logits, perm=[0, 2, 3, 1])
    right, below, both = neighbors(cells)
    winner = op.ArgMax(cells, axis=3, keepdims=1)
    winner_right, winner_below, winner_both = neighbors(winner)
    winners = op.Concat(winner, winner_right, winner_below, winner_both, axis=3)
    margin = op.Max(
        above_mean(cells, winners),
        above_mean(right, winners),
        above_mean(below, winners),
        above_mean(both, winners),
    )
    rounding = op.ReduceMax(op.Abs(logits), all_axes, keepdims=0) * op.Constant(value_float=-1e-6)
    can_win = op.Cast(op.Not(op.Less(margin, rounding)), to=1)  # NaN, of infinite logits, can
    most = op.ReduceMax(op.ReduceSum(can_win, op.Constant(value_ints=[3])), all_axes, keepdims=0)
    k = op.Reshape(op.Cast(most, to=7), one)
    num_classes = op.Shape(logits, start=1, end=2)
    if op.Squeeze(op.Less(k * op.Constant(value_ints=[4]), num_classes)):
        _, classes = op.TopK(margin, k, axis=3)
        classes, _unused = op.TopK(classes, k, axis=3, largest=0)  # the first one wins a tie
        height = op.Shape(logits, start=2, end=3)
        width = op.Shape(logits, start=3, end=4)
        aligned = op.Cast(op.Constant(value_int=align_corners), to=9)
        rows = op.Gather(shape, op.Constant(value_ints=[2]))
        columns = op.Gather(shape, op.Constant(value_ints=[3]))
        y, up, down = cells_of_pixels(height, rows, aligned)
        x, left, across = cells_of_pixels(width, columns, aligned)
        up = op.Unsqueeze(up, one)
        down = op.Unsqueeze(down, one)
        # (B, k, H, W), summed in the order of ONNX Runtime
        total = across * down * of_pixels(cells, classes, y, x)
        total = total + left * down * of_pixels(right, classes, y, x)
        total = total + across * up * of_pixels(below, classes, y, x)
        total = total + left * up * of_pixels(both, classes, y, x)
        best = op.ArgMax(total, axis=1, keepdims=1)
        cell = op.Unsqueeze(y, one) * width + x  # (H, W)
        flat = op.Constant(value_ints=[0, -1])
        place = op.Reshape(cell * k + best, flat)
        labels = op.GatherElements(op.Reshape(classes, flat), place, axis=1)
        result = op.Reshape(labels, op.Gather(shape, op.Constant(value_ints=[0, 2, 3])))
    else:
        resized = op.Resize(
            logits,
            None,
            None,
            shape,
            mode='linear',
            coordinate_transformation_mode=transformation,
        )
        result = op.ArgMax(resized, axis=1, keepdims=0)
    return result


FUNCTIONS = (cells_of_pixels, neighbors, above_mean, of_pixels, resized_argmax)


def shrink_argmax(model: ir.Model) -> None:
    """Replace the argmax of resized logits of many classes by :func:`resized_argmax`, in place."""
    found = [node for node in model.graph if is_argmax_of_resized(node)]
    if not found:
        return
    for function in FUNCTIONS:
        translated = ir.serde.deserialize_function(function.to_function_proto())
        translated.opset_imports[''] = model.opset_imports['']
        model.functions[translated.identifier()] = translated
    for node in found:
        resize = node.inputs[0].producer()
        logits = resize.inputs[0]
        if logits.producer() is not None and logits.producer().op_type == 'DequantizeLinear':
            # ONNX Runtime aborts where it moves a dequantization past values that branches share
            for _ in range(2):
                model.graph.insert_before(node, barrier := ir.Node('', 'Neg', [logits]))
                logits = barrier.outputs[0]
        function = resized_argmax.function_ir
        mode = transformation_of(resize)
        attributes = [
            ir.AttrString('transformation', mode),
            ir.AttrInt64('align_corners', int(mode == ALIGNED)),
        ]
        shrunk = ir.Node(function.domain, function.name, [logits, resize.inputs[3]], attributes)
        shrunk.metadata_props.update(node.metadata_props)
        (old,), (new,) = node.outputs, shrunk.outputs
        new.name, new.shape, new.type = old.name, old.shape, old.type
        model.graph.insert_after(node, shrunk)
        ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
        model.graph.remove(node, safe=True)
        if not resize.outputs[0].uses():
            model.graph.remove(resize, safe=True)
    common.InlinePass()(model)


def expand_argmax(model: ir.Model) -> None:
    """Undo :func:`shrink_argmax`, in place, for tools that cannot follow branches."""
    for node in list(model.graph):
        if node.op_type != 'If' or 'else_branch' not in node.attributes:
            continue
        branch = node.attributes['else_branch'].as_graph()
        if {'Resize', 'ArgMax'} <= {inner.op_type for inner in branch}:
            inside = list(branch)
            (result,), (old,) = branch.outputs, node.outputs
            other = node.attributes['then_branch'].as_graph()
            for each in (branch, other):
                each.outputs.clear()
            branch.remove(inside)
            other.remove(list(other), safe=True)  # it uses values of the graph no more
            model.graph.insert_after(node, inside)
            result.name, result.shape, result.type = old.name, old.shape, old.type
            ir.convenience.replace_all_uses_with(old, result, replace_graph_outputs=True)
            model.graph.remove(node, safe=True)
    common.RemoveUnusedNodesPass()(model)


def changed(model: 'onnx.ModelProto', change: Callable[[ir.Model], None]) -> 'onnx.ModelProto':
    """A file's model after :func:`shrink_argmax` or :func:`expand_argmax`."""
    from onnx.shape_inference import infer_shapes

    if not {'ArgMax', 'If'} & {node.op_type for node in model.graph.node}:
        return model
    copy = ir.serde.deserialize_model(infer_shapes(model))
    change(copy)
    return ir.serde.serialize_model(copy)


def transformation_of(resize: ir.Node) -> str:
    return resize.attributes.get_string('coordinate_transformation_mode', 'half_pixel')


def is_argmax_of_resized(node: ir.Node) -> bool:
    """Whether a node finds the best of many classes in logits that were resized linearly."""
    if node.op_type != 'ArgMax' or node.attributes.get_int('keepdims', 1):
        return False
    resize = node.inputs[0].producer()
    if node.attributes.get_int('axis', 0) != 1 or resize is None or resize.op_type != 'Resize':
        return False
    shape = resize.inputs[0].shape
    classes = shape[1] if shape is not None and len(shape) > 1 else None
    return (
        transformation_of(resize) in (*HALF_PIXEL, ALIGNED)
        and resize.attributes.get_string('mode', 'nearest') == 'linear'
        and len(resize.inputs) == 4
        and isinstance(classes, int)
        and classes >= MIN_CLASSES
    )
