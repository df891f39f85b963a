"""Label maps without full-size logits, in ONNX.

A segmentor resizes its logits to the image and takes the argmax, which for 150 classes takes longer
than the network. Between four neighboring centers, the corners of a cell, every value is a weighted
mean of their logits. Where one class is the best at all corners, it wins in the whole cell. In the
other, mixed cells, a class can win only if it reaches each of the winners, and any weighted mean of
them, at one of the corners. Of a trained model's logits few cells are mixed, and a few classes can
win in them: pairs, which alone are resized. The arithmetic is
that of ONNX Runtime's ``Resize``, whose label maps are the same to the bit; another runtime may
round ties differently.
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
def cells_of_axis(side: INT64[...], pixels: INT64[...], aligned: BOOL):
    """The cell of every pixel, its number in the cell, and distances of cells' pixels (h + 1, s).

    Cells are between the centers of logits, and one more is before the first and after the last.
    Distances are those to the first and to the second corner; s is the largest number of pixels in
    a cell, and others repeat pixels, which are not used.
    """
    half = op.Constant(value_float=0.5)
    zero = op.Constant(value_float=0.0)
    one = op.Constant(value_float=1.0)
    first_number = op.Constant(value_int=0)
    step = op.Constant(value_int=1)
    numbers = op.Range(first_number, op.Squeeze(pixels), step)
    scale = op.Cast(pixels, to=1) / op.Cast(side, to=1)
    last = op.Cast(side, to=1) - one
    gaps = op.Max(op.Cast(pixels, to=1) - one, one)
    from_corners = op.Cast(numbers, to=1) * last / gaps
    center = op.Where(aligned, from_corners, (op.Cast(numbers, to=1) + half) / scale - half)
    place = op.Min(op.Max(center, zero), last)
    first = op.Floor(place)
    second = op.Min(first + one, last)
    at_edge = op.Equal(first, second)
    to_first = op.Where(at_edge, half, place - first)
    to_second = op.Where(at_edge, half, second - place)
    cell = op.Cast(first + one - op.Cast(op.Less(center, zero), to=1), to=7)

    cells = op.Range(first_number, op.Squeeze(side) + step, step)
    counts = op.ReduceSum(op.Cast(op.Equal(op.Unsqueeze(cells, [1]), cell), to=7), [1], keepdims=0)
    start = op.CumSum(counts, 0, exclusive=1)
    inside = op.Range(first_number, op.ReduceMax(counts, keepdims=0), step)
    chosen = op.Min(op.Unsqueeze(start, [1]) + inside, op.Size(cell) - step)
    number = numbers - op.Gather(start, cell)
    return cell, number, op.Gather(to_first, chosen), op.Gather(to_second, chosen)


@script(default_opset=op)
def clear_winners(logits: FLOAT[...], tolerance: FLOAT[...]):
    """A best class of centers (P, C), and the same or -1 where another comes close: (P, 1) each."""
    one = op.Constant(value_float=1.0)
    none = op.Constant(value_float=-1.0)
    highest = op.ReduceMax(logits, [-1])
    # NaN, of infinite logits, is close to everything
    is_close = op.Cast(op.Not(op.Less(logits, highest - tolerance)), to=1)
    classes = op.Squeeze(op.Shape(logits, start=1, end=2))
    numbers = op.Cast(op.Range(op.Constant(value_int=0), classes, op.Constant(value_int=1)), to=1)
    winner = op.ReduceMax(is_close * numbers, [-1])
    is_clear = op.Equal(op.ReduceSum(is_close, [-1]), one)
    return winner, op.Where(is_clear, winner, none)


@script(default_opset=op)
def first_and_true(mask: BOOL[...]) -> INT64[...]:
    """The index 0, so that there is one, and those of the other true entries of a mask (N)."""
    others = op.Slice(mask, [1], [9223372036854775807])
    found = op.Reshape(op.NonZero(others), [-1]) + op.Constant(value_ints=[1])
    return op.Concat(op.Constant(value_ints=[0]), found, axis=0)


@script(default_opset=op)
def mixed_cells(winner: FLOAT[...]):
    """The common winner of the corners of cells (B, 1, h + 1, w + 1); the first and mixed cells."""
    highest = op.MaxPool(winner, kernel_shape=[2, 2], pads=[1, 1, 1, 1])
    lowest = op.Neg(op.MaxPool(op.Neg(winner), kernel_shape=[2, 2], pads=[1, 1, 1, 1]))
    is_mixed = op.Or(op.Less(lowest, op.Constant(value_float=0.0)), op.Less(lowest, highest))
    return lowest, first_and_true(op.Reshape(is_mixed, [-1]))


@script(default_opset=op)
def corners(cells: INT64[...], height: INT64[...], width: INT64[...]):
    """The centers (P, 4) at the corners of cells (P), and the rows and columns of the cells.

    At the edge of the image, two corners are the same center.
    """
    zero = op.Constant(value_ints=[0])
    one = op.Constant(value_ints=[1])
    in_row = width + one
    in_image = (height + one) * in_row
    inside = op.Mod(cells, in_image)
    row = inside / in_row
    column = op.Mod(inside, in_row)
    image = cells / in_image * height
    top = (image + op.Max(row - one, zero)) * width
    low = (image + op.Min(row, height - one)) * width
    left = op.Max(column - one, zero)
    right = op.Min(column, width - one)
    numbers = op.Concat(top + left, top + right, low + left, low + right, axis=0)
    return op.Transpose(op.Reshape(numbers, [4, -1])), row, column


@script(default_opset=op)
def classes_that_can_win(
    values: FLOAT[...], winners: INT64[...], tolerance: FLOAT[...]
) -> BOOL[...]:
    """Whether a class can be the best in a cell (P, C), from the corners' logits (P, 4, C).

    At one corner, it has to reach the mean of the corners' winners (P, 4), and at one the winner
    with the highest mean.
    """
    numbers = op.Expand(op.Unsqueeze(winners, [1]), [1, 4, 1])
    of_winners = op.GatherElements(values, numbers, axis=2)  # (P, 4, 4)
    best = op.Expand(op.ArgMax(op.ReduceMean(of_winners, [1]), axis=2), [1, 4, 1])
    of_best = op.GatherElements(of_winners, best, axis=2)
    over_mean = op.ReduceMax(values - op.ReduceMean(of_winners, [-1]), [1], keepdims=0)
    over_best = op.ReduceMax(values - of_best, [1], keepdims=0)
    return op.Not(op.Less(op.Min(over_mean, over_best), op.Neg(tolerance)))


@script(default_opset=op)
def both(first: FLOAT[...], second: FLOAT[...], shape: INT64[...]) -> FLOAT[...]:
    """Two weights (n, s, 1) or (n, 1, t), expanded to (n, s, t), side by side: (n, 2, s t)."""
    pair = op.Concat(op.Expand(first, shape), op.Expand(second, shape), axis=1)
    return op.Reshape(pair, [0, 2, -1])


@script(default_opset=op)
def weights_of(
    top: FLOAT[...], low: FLOAT[...], left: FLOAT[...], right: FLOAT[...],
    row: INT64[...], column: INT64[...],
) -> FLOAT[...]:  # fmt: skip
    """The weights (P, 4, s t) of corners in the pixels of cells (P), from (h, s) and (w, t)."""
    sides = op.Concat(op.Shape(top, start=1, end=2), op.Shape(left, start=1, end=2), axis=0)
    shape = op.Concat(op.Constant(value_ints=[1]), sides, axis=0)
    y = both(op.Unsqueeze(top, [2]), op.Unsqueeze(low, [2]), shape)
    x = both(op.Unsqueeze(left, [1]), op.Unsqueeze(right, [1]), shape)
    weights = op.Unsqueeze(op.Gather(y, row), [2]) * op.Unsqueeze(op.Gather(x, column), [1])
    return op.Reshape(weights, [0, 4, -1])


@script(default_opset=op)
def likely_classes(can_win: BOOL[...], cells: INT64[...], count: INT64[...]) -> INT64[...]:
    """For some cells, the classes that can win and others to make them ``count``: (P, count)."""
    classes = op.Squeeze(op.Shape(can_win, start=1, end=2))
    numbers = op.Range(op.Constant(value_int=0), classes, op.Constant(value_int=1))
    order = op.Cast(classes - numbers, to=1)
    key = op.Where(op.Gather(can_win, cells), order, op.Constant(value_float=0.0))
    _, found = op.TopK(key, count)  # those that can win in the order of their numbers
    return found


@script(default_opset=op)
def part(values: FLOAT[...], weights: FLOAT[...], corner: INT64) -> FLOAT[...]:
    """A corner's part (P, K, D) of the pixels' logits: values (P, 4, K) by weights (P, 4, D)."""
    value = op.Gather(op.Unsqueeze(values, [3]), corner, axis=1)
    return value * op.Gather(op.Unsqueeze(weights, [2]), corner, axis=1)


@script(default_opset=op)
def cells_with(counts: FLOAT[...], low: INT64[...], high: INT64[...]) -> INT64[...]:
    """The first cell, and others with more than ``low`` and up to ``high`` classes."""
    is_more = op.Greater(counts, op.Cast(low, to=1))
    return first_and_true(op.And(is_more, op.LessOrEqual(counts, op.Cast(high, to=1))))


@script(default_opset=op)
def with_group(
    labels: FLOAT[...], counts: FLOAT[...], can_win: BOOL[...], values: FLOAT[...],
    weights: FLOAT[...], low: INT64[...], high: INT64[...],
) -> FLOAT[...]:  # fmt: skip
    """Labels (P, D) of the pixels of cells, with those of the cells of a group and of the first.

    A group has cells with more than ``low`` and up to ``high`` likely classes, of which each gets
    ``high``. A cell is in it once: threads of ONNX Runtime write to a place at the same time. The
    logits of corners (P, 4, C) are summed in its order, by their weights (P, 4, D).
    """
    cells = cells_with(counts, low, high)
    classes = likely_classes(can_win, cells, op.Min(high, op.Shape(can_win, start=1, end=2)))
    every = op.Expand(op.Unsqueeze(classes, [1]), [1, 4, 1])
    values = op.GatherElements(op.Gather(values, cells), every, axis=2)
    weights = op.Gather(weights, cells)
    total = part(values, weights, 0)
    total = total + part(values, weights, 1)
    total = total + part(values, weights, 2)
    total = total + part(values, weights, 3)
    best = op.GatherElements(classes, op.ArgMax(total, axis=1, keepdims=0), axis=1)
    return op.ScatterND(labels, op.Unsqueeze(cells, [1]), op.Cast(best, to=1))


@script(default_opset=op)
def pixels_of_image(inside: FLOAT[...], rows: INT64[...], columns: INT64[...]) -> INT64[...]:
    """Labels of the pixels of cells (B, h, w, s, t) -> (B, H, W), from places in h s and in w t."""
    by_row = op.Transpose(inside, perm=[0, 1, 3, 2, 4])
    height = op.Shape(by_row, start=1, end=2) * op.Shape(by_row, start=2, end=3)
    sizes = op.Concat(op.Constant(value_ints=[0]), height, op.Constant(value_ints=[-1]), axis=0)
    by_row = op.Gather(op.Reshape(by_row, sizes), rows, axis=1)  # single pixels would be slower
    # ONNX Runtime transposes fast where a single axis moves
    by_column = op.Gather(op.Transpose(by_row, perm=[2, 0, 1]), columns)
    return op.Cast(op.Transpose(by_column, perm=[1, 2, 0]), to=7)


@script(default_opset=op)
def all_resized(logits: FLOAT[...], shape: INT64[...], transformation: str) -> INT64[...]:
    """The label map by way of all logits at full size."""
    resized = op.Resize(
        logits,
        None,
        None,
        shape,
        mode='linear',
        coordinate_transformation_mode=transformation,
    )
    return op.ArgMax(resized, axis=1, keepdims=0)


@script(default_opset=op)
def resized_argmax(
    logits: FLOAT[...], shape: INT64[...], transformation: str, align_corners: int
) -> INT64[...]:
    """``ArgMax(Resize(logits, shape))``: (B, C, h, w) -> (B, H, W).

    ``transformation`` is that of the coordinates, and ``align_corners`` says if it is of this name.
    """
    largest = op.ReduceMax(op.Abs(logits), [0, 1, 2, 3], keepdims=0)
    tolerance = largest * op.Constant(value_float=1e-6)
    flat = op.Constant(value_ints=[-1])
    one = op.Constant(value_ints=[1])
    classes = op.Shape(logits, start=1, end=2)
    by_center = op.Transpose(logits, perm=[0, 2, 3, 1])
    by_center = op.Reshape(by_center, op.Concat(flat, classes, axis=0))
    winner, clear_winner = clear_winners(by_center, tolerance)
    centers = op.Concat(
        op.Shape(logits, start=0, end=1), one, op.Shape(logits, start=2, end=4), axis=0
    )
    common, mixed = mixed_cells(op.Reshape(clear_winner, centers))
    # of noise, almost all are mixed
    if op.Less(
        op.Size(mixed), op.Size(common) * op.Constant(value_int=7) / op.Constant(value_int=8)
    ):
        height = op.Shape(logits, start=2, end=3)
        width = op.Shape(logits, start=3, end=4)
        centers, row, column = corners(mixed, height, width)
        values = op.Gather(by_center, centers)
        winners = op.Gather(op.Cast(op.Squeeze(winner, [-1]), to=7), centers)
        can_win = classes_that_can_win(values, winners, tolerance)
        counts = op.ReduceSum(op.Cast(can_win, to=1), [-1], keepdims=0)
        pairs = op.Cast(op.ReduceSum(counts, keepdims=0), to=7) * op.Constant(value_int=4)
        # a quarter of all take as long as all
        if op.Less(pairs, op.Size(common) * op.Squeeze(classes)):
            aligned = op.Cast(op.Constant(value_int=align_corners), to=9)
            y, y_inside, up, down = cells_of_axis(height, op.Gather(shape, [2]), aligned)
            x, x_inside, left, across = cells_of_axis(width, op.Gather(shape, [3]), aligned)
            weights = weights_of(down, up, across, left, row, column)
            labels = op.Gather(weights, 0, axis=1)  # all are replaced
            labels = with_group(labels, counts, can_win, values, weights, [0], [2])
            labels = with_group(labels, counts, can_win, values, weights, [2], [4])
            labels = with_group(labels, counts, can_win, values, weights, [4], [8])
            labels = with_group(labels, counts, can_win, values, weights, [8], [16])
            labels = with_group(labels, counts, can_win, values, weights, [16], [32])
            labels = with_group(labels, counts, can_win, values, weights, [32], [64])
            of_mixed = with_group(labels, counts, can_win, values, weights, [64], classes)
            wide = op.Shape(left, start=1, end=2)
            tall = op.Shape(up, start=1, end=2)
            of_all = op.Expand(
                op.Reshape(common, [-1, 1]),
                op.Concat(op.Shape(op.Reshape(common, flat)), tall * wide, axis=0),
            )
            labels = op.ScatterND(of_all, op.Unsqueeze(mixed, [1]), of_mixed)
            images = op.Shape(logits, start=0, end=1)
            sizes = op.Concat(images, height + one, width + one, tall, wide, axis=0)
            inside = op.Reshape(labels, sizes)
            found = pixels_of_image(inside, y * tall + y_inside, x * wide + x_inside)
        else:
            found = all_resized(logits, shape, transformation)
        result = op.Identity(found)
    else:
        result = all_resized(logits, shape, transformation)
    return result


FUNCTIONS = (
    cells_of_axis, clear_winners, first_and_true, mixed_cells, corners, classes_that_can_win, both,
    weights_of, likely_classes, part, cells_with, with_group, pixels_of_image, all_resized,
    resized_argmax,
)  # fmt: skip


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
            branch.outputs.clear()
            branch.remove(inside)
            clear(other)
            model.graph.insert_after(node, inside)
            result.name, result.shape, result.type = old.name, old.shape, old.type
            ir.convenience.replace_all_uses_with(old, result, replace_graph_outputs=True)
            model.graph.remove(node, safe=True)
    common.RemoveUnusedNodesPass()(model)


def clear(graph: ir.Graph) -> None:
    """Remove what a branch does, so that it uses the values around it no more."""
    graph.outputs.clear()
    for node in graph:
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                clear(attribute.as_graph())
    graph.remove(list(graph), safe=True)


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
