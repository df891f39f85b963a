"""Label maps without full-size logits, in ONNX.

A segmentor resizes its logits to the image and takes the argmax, which for 150 classes takes longer
than the network. Between four neighboring centers every value is a weighted mean of their logits.
The mean of the four winners is nowhere above the best of them: a class can win between the centers
only if it reaches that mean in one of them. Of a trained model's logits these are a few classes,
and many only in few cells: pairs of a cell and a class, which alone are resized. The arithmetic is
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
def cells_of_pixels(side: INT64[...], pixels: INT64[...], aligned: BOOL):
    """The cell of every pixel, and its distances to the cell's corners.

    Cells are between the centers of logits, and one more is before the first and after the last.
    """
    cells = op.Cast(side, to=1)
    numbers = op.Range(op.Constant(value_int=0), op.Squeeze(pixels), op.Constant(value_int=1))
    scale = op.Cast(pixels, to=1) / cells
    half = op.Constant(value_float=0.5)
    zero = op.Constant(value_float=0.0)
    last = cells - op.Constant(value_float=1.0)
    one = op.Constant(value_float=1.0)
    gaps = op.Max(op.Cast(pixels, to=1) - one, one)
    from_corners = op.Cast(numbers, to=1) * last / gaps
    center = op.Where(aligned, from_corners, (op.Cast(numbers, to=1) + half) / scale - half)
    place = op.Min(op.Max(center, zero), last)
    first = op.Floor(place)
    second = op.Min(first + op.Constant(value_float=1.0), last)
    at_edge = op.Equal(first, second)
    to_first = op.Where(at_edge, half, place - first)
    to_second = op.Where(at_edge, half, second - place)
    is_before = op.Cast(op.Less(center, zero), to=1)
    return op.Cast(first + one - is_before, to=7), to_first, to_second


@script(default_opset=op)
def pixels_of_cells(
    side: INT64[...], cell: INT64[...], to_first: FLOAT[...], to_second: FLOAT[...]
):
    """The distances of the pixels of every cell (h + 1, s), and each pixel's number in its cell.

    s is the largest number of pixels in a cell; others repeat pixels, which are not used.
    """
    one = op.Constant(value_int=1)
    cells = op.Range(op.Constant(value_int=0), op.Squeeze(side) + one, one)
    column = op.Constant(value_ints=[1])
    is_inside = op.Cast(op.Equal(op.Unsqueeze(cells, column), cell), to=7)
    counts = op.ReduceSum(is_inside, column, keepdims=0)
    start = op.CumSum(counts, op.Constant(value_int=0), exclusive=1)
    most = op.ReduceMax(counts, keepdims=0)
    numbers = op.Range(op.Constant(value_int=0), most, one)
    pixels = op.Min(op.Unsqueeze(start, column) + numbers, op.Size(cell) - one)
    total = op.Range(op.Constant(value_int=0), op.Size(cell), one)
    return op.Gather(to_first, pixels), op.Gather(to_second, pixels), total - op.Gather(start, cell)


@script(default_opset=op)
def corners(values):
    """The corners of cells, (B, h, w, C) -> (B, h + 1, w + 1, C) each; edges are repeated."""
    return (
        op.Pad(values, op.Constant(value_ints=[0, 1, 1, 0, 0, 0, 0, 0]), mode='edge'),
        op.Pad(values, op.Constant(value_ints=[0, 1, 0, 0, 0, 0, 1, 0]), mode='edge'),
        op.Pad(values, op.Constant(value_ints=[0, 0, 1, 0, 0, 1, 0, 0]), mode='edge'),
        op.Pad(values, op.Constant(value_ints=[0, 0, 0, 0, 0, 1, 1, 0]), mode='edge'),
    )


@script(default_opset=op)
def above_mean(values: FLOAT[...], winners: INT64[...]) -> FLOAT[...]:
    """Logits (B, h, w, C) minus the mean of those of the winners (B, h, w, 4)."""
    last = op.Constant(value_ints=[-1])
    return values - op.ReduceMean(op.GatherElements(values, winners, axis=3), last)


@script(default_opset=op)
def weighted(
    values: FLOAT[...], pairs: INT64[...], vertical: FLOAT[...], horizontal: FLOAT[...],
    cells: INT64[...],
) -> FLOAT[...]:  # fmt: skip
    """A corner's part (P, s t) of the logits of pairs in their cells."""
    flat = op.Constant(value_ints=[-1])
    column = op.Constant(value_ints=[1])
    y = op.Unsqueeze(vertical, op.Constant(value_ints=[1, 3]))
    x = op.Unsqueeze(horizontal, op.Constant(value_ints=[0, 2]))
    pixels = op.Size(vertical) / op.Shape(vertical, start=0, end=1)
    pixels = pixels * (op.Size(horizontal) / op.Shape(horizontal, start=0, end=1))
    weights = op.Reshape(y * x, op.Concat(flat, pixels, axis=0))  # of all cells
    chosen = op.Unsqueeze(op.Gather(op.Reshape(values, flat), pairs), column)
    return op.Gather(weights, cells) * chosen


@script(default_opset=op)
def best_classes(
    logits: FLOAT[...], cells: INT64[...], classes: INT64[...], count: INT64[...]
) -> FLOAT[...]:
    """The best class of every pixel of a cell: (P, D), cell and class of each -> (count, D)."""
    one = op.Constant(value_ints=[1])
    sizes = op.Concat(count, op.Shape(logits, start=1, end=2), axis=0)
    rows = op.Unsqueeze(cells, one)
    lowest = op.Expand(op.Constant(value_float=-3.4028234e38), sizes)
    best = op.ScatterND(lowest, rows, logits, reduction='max')
    loses = op.Less(logits, op.Gather(best, cells))
    number = op.Unsqueeze(op.Cast(classes, to=1), one)
    none = op.Constant(value_float=1e9)
    winners = op.Where(loses, none, number)
    return op.ScatterND(op.Expand(none, sizes), rows, winners, reduction='min')  # the first of ties


@script(default_opset=op)
def pixels_of_image(inside: FLOAT[...], rows: INT64[...], columns: INT64[...]) -> INT64[...]:
    """Labels of the pixels of cells (B, h, w, s, t) -> (B, H, W), from places in h s and in w t."""
    flat = op.Constant(value_ints=[-1])
    sizes = op.Shape(inside)
    images = op.Shape(inside, start=0, end=1)
    width = op.Gather(sizes, op.Constant(value_ints=[2])) * op.Shape(inside, start=4, end=5)
    by_row = op.Transpose(inside, perm=[1, 3, 0, 2, 4])
    by_row = op.Reshape(by_row, op.Concat(flat, images, width, axis=0))
    by_row = op.Gather(by_row, rows, axis=0)  # whole rows: single pixels take several times as long
    by_column = op.Gather(op.Transpose(by_row, perm=[2, 1, 0]), columns, axis=0)
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
def neighbors_agree(logits: FLOAT[...]) -> BOOL:
    """Whether a quarter of the logits have the best class of their right neighbor.

    It looks at every fourth row. Of noise, which this finds in a hundredth of the time of the
    search, hardly any two agree.
    """
    zero = op.Constant(value_ints=[0])
    one = op.Constant(value_ints=[1])
    row = op.Constant(value_ints=[2])
    column = op.Constant(value_ints=[3])
    all_of_them = op.Constant(value_ints=[9223372036854775807])
    rows = op.Slice(logits, zero, all_of_them, row, op.Constant(value_ints=[4]))
    winners = op.ArgMax(rows, axis=1, keepdims=1)
    right = op.Slice(winners, one, all_of_them, column)
    left = op.Slice(winners, zero, op.Constant(value_ints=[-1]), column)
    agreeing = op.Cast(op.Equal(left, right), to=1)
    many = op.Cast(op.Size(agreeing), to=1) * op.Constant(value_float=0.25)
    # not fewer: a single column has no neighbors
    return op.Not(op.Less(op.ReduceSum(agreeing, keepdims=0), many))


@script(default_opset=op)
def resized_argmax(
    logits: FLOAT[...], shape: INT64[...], transformation: str, align_corners: int
) -> INT64[...]:
    """``ArgMax(Resize(logits, shape))``: (B, C, h, w) -> (B, H, W).

    ``transformation`` is that of the coordinates, and ``align_corners`` says if it is of this name.
    """
    if neighbors_agree(logits):
        all_axes = op.Constant(value_ints=[0, 1, 2, 3])
        values = op.Transpose(logits, perm=[0, 2, 3, 1])
        top_left, top_right, low_left, low_right = corners(values)
        winner_1, winner_2, winner_3, winner_4 = corners(op.ArgMax(values, axis=3, keepdims=1))
        winners = op.Concat(winner_1, winner_2, winner_3, winner_4, axis=3)
        margin = op.Max(
            above_mean(top_left, winners),
            above_mean(top_right, winners),
            above_mean(low_left, winners),
            above_mean(low_right, winners),
        )
        largest = op.ReduceMax(op.Abs(logits), all_axes, keepdims=0)
        # NaN, of infinite logits, can win
        can_win = op.Not(op.Less(margin, largest * op.Constant(value_float=-1e-6)))
        pairs_found = op.ReduceSum(op.Cast(can_win, to=6), all_axes, keepdims=0)
        few = op.Size(can_win) / op.Constant(value_int=3)  # half of them take as long as all
        if op.Less(op.Cast(pairs_found, to=7), few):
            flat = op.Constant(value_ints=[-1])
            pairs = op.Reshape(op.NonZero(op.Reshape(can_win, flat)), flat)
            aligned = op.Cast(op.Constant(value_int=align_corners), to=9)
            height = op.Shape(logits, start=2, end=3)
            width = op.Shape(logits, start=3, end=4)
            rows = op.Gather(shape, op.Constant(value_ints=[2]))
            columns = op.Gather(shape, op.Constant(value_ints=[3]))
            y, y_first, y_second = cells_of_pixels(height, rows, aligned)
            x, x_first, x_second = cells_of_pixels(width, columns, aligned)
            up, down, y_inside = pixels_of_cells(height, y, y_first, y_second)
            left, across, x_inside = pixels_of_cells(width, x, x_first, x_second)
            one = op.Constant(value_ints=[1])
            in_row = width + one
            in_image = (height + one) * in_row
            classes = op.Shape(logits, start=1, end=2)
            places = pairs / classes
            cells = op.Mod(places, in_image)
            # the pixels of a cell in each pair (P, s t), summed in the order of ONNX Runtime
            total = weighted(top_left, pairs, down, across, cells)
            total = total + weighted(top_right, pairs, down, left, cells)
            total = total + weighted(low_left, pairs, up, across, cells)
            total = total + weighted(low_right, pairs, up, left, cells)
            wide = op.Shape(left, start=1, end=2)
            tall = op.Shape(up, start=1, end=2)
            labels = best_classes(total, places, op.Mod(pairs, classes), op.Size(can_win) / classes)
            images = op.Shape(logits, start=0, end=1)
            sizes = op.Concat(images, height + one, in_row, tall, wide, axis=0)
            inside = op.Reshape(labels, sizes)
            found = pixels_of_image(inside, y * tall + y_inside, x * wide + x_inside)
        else:
            found = all_resized(logits, shape, transformation)
        result = op.Identity(found)
    else:
        result = all_resized(logits, shape, transformation)
    return result


FUNCTIONS = (
    cells_of_pixels, pixels_of_cells, corners, above_mean, weighted, best_classes, pixels_of_image,
    all_resized, neighbors_agree, resized_argmax,
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
