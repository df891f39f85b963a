"""Run an ONNX graph in PyTorch, so that gradients of its outputs can be taken.

No maintained library does: onnx2torch knows operators up to opset 17. Exported files have opset 18
or later.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import onnx
import torch
import torch.nn.functional as F
from torch import Tensor

from mmeffvit.errors import UserError
from mmeffvit.utils.text import listed

Operator = Callable[..., Any]  # inputs, then the node's attributes by name -> output or outputs
MODES = {'linear': 'bilinear', 'cubic': 'bicubic'}  # of interpolation, in ONNX and in torch


class TorchGraph:
    """The part of an ONNX graph that some of its values depend on.

    Args:
        model: The ONNX model.
        outputs: Names of the values to compute.
        operators: Operators by kind that add to, or replace, :data:`OPERATORS`.

    Attributes:
        constants: The initializers by name. Replace one by a parameter to train it.

    Raises:
        UserError: If an operator is unknown.
    """

    def __init__(
        self, model: Any, outputs: Sequence[str], operators: Mapping[str, Operator] | None = None
    ) -> None:
        operators = {**OPERATORS, **(operators or {})}
        self.input = model.graph.input[0].name
        self.outputs = list(outputs)
        nodes = ancestors(model, outputs)
        unknown = {node.op_type for node in nodes} - set(operators)
        if unknown:
            raise lacks(f'the operators {listed(sorted(unknown))}')
        used = {name for node in nodes for name in node.input} | set(outputs)
        self.constants = {
            each.name: torch.from_numpy(onnx.numpy_helper.to_array(each).copy())
            for each in model.graph.initializer
            if each.name in used
        }
        self.nodes = [
            (operators[node.op_type], list(node.input), list(node.output), attributes(node))
            for node in nodes
        ]

    def __call__(self, image: Tensor) -> dict[str, Tensor]:
        """The outputs by name for an image (B, 3, H, W)."""
        values: dict[str, Any] = {'': None, self.input: image, **self.constants}
        for operator, inputs, outputs, options in self.nodes:
            found = operator(*(values[name] for name in inputs), **options)
            found = [found] if len(outputs) == 1 else found
            values.update(zip(outputs, found, strict=False))
        return {name: values[name] for name in self.outputs}


def lacks(what: str) -> UserError:
    return UserError(f'Running an ONNX file in PyTorch lacks {what}; quantize without --finetune')


def ancestors(model: Any, outputs: Sequence[str]) -> list[Any]:
    """The nodes that values depend on, in topological order."""
    makers = {name: node for node in model.graph.node for name in node.output if name}
    ordered: dict[int, Any] = {}
    stack = [(name, False) for name in outputs]
    while stack:
        name, is_ready = stack.pop()
        node = makers.get(name)
        if node is None or id(node) in ordered:
            continue
        if is_ready:
            ordered[id(node)] = node
        else:
            stack.append((name, True))
            stack += [(each, False) for each in node.input]
    return list(ordered.values())


def attributes(node: Any) -> dict[str, Any]:
    options = {}
    for each in node.attribute:
        value = onnx.helper.get_attribute_value(each)
        if isinstance(value, onnx.TensorProto):
            value = torch.from_numpy(onnx.numpy_helper.to_array(value).copy())
        options[each.name] = value.decode() if isinstance(value, bytes) else value
    return options


def conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    group: int = 1,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    auto_pad: str = 'NOTSET',
    kernel_shape: Sequence[int] = (),
) -> Tensor:
    if auto_pad not in ('NOTSET', 'VALID'):
        raise lacks(f'the padding {auto_pad}')
    if pads is not None and any(pads):
        x = F.pad(x, (pads[1], pads[3], pads[0], pads[2]))
    return F.conv2d(x, weight, bias, strides or 1, 0, dilations or 1, group)


def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,  # noqa: N803 - the name of ONNX
    transB: int = 0,  # noqa: N803
) -> Tensor:
    product = alpha * ((a.T if transA else a) @ (b.T if transB else b))
    return product if c is None else product + beta * c


def reshape(x: Tensor, shape: Tensor, *, allowzero: int = 0) -> Tensor:
    sides = shape.tolist()
    if not allowzero:
        sides = [x.shape[axis] if side == 0 else side for axis, side in enumerate(sides)]
    return x.reshape(sides)


def slice_(
    x: Tensor,
    starts: Tensor,
    ends: Tensor,
    axes: Tensor | None = None,
    steps: Tensor | None = None,
) -> Tensor:
    count = starts.numel()
    index = [slice(None)] * x.ndim
    for start, end, axis, step in zip(
        starts.tolist(),
        ends.tolist(),
        range(count) if axes is None else axes.tolist(),
        [1] * count if steps is None else steps.tolist(),
        strict=True,
    ):
        if step < 0:
            raise lacks('negative slice steps')
        index[axis] = slice(start, end, step)
    return x[tuple(index)]


def split(
    x: Tensor, sizes: Tensor | None = None, *, axis: int = 0, num_outputs: int = 0
) -> tuple[Tensor, ...]:
    if sizes is not None:
        return x.split(sizes.tolist(), dim=axis)
    return x.split(-(-x.shape[axis] // num_outputs), dim=axis)


def resize(
    x: Tensor,
    roi: Tensor | None = None,
    scales: Tensor | None = None,
    sizes: Tensor | None = None,
    *,
    mode: str = 'nearest',
    coordinate_transformation_mode: str = 'half_pixel',
    **_: Any,
) -> Tensor:
    if sizes is None:
        ratios = scales[2:].tolist()
        size = [int(side * ratio) for side, ratio in zip(x.shape[2:], ratios, strict=True)]
    else:
        size = sizes[2:].tolist()
    if mode == 'nearest':
        return F.interpolate(x, size, mode='nearest')
    corners = coordinate_transformation_mode == 'align_corners'
    return F.interpolate(x, size, mode=MODES[mode], align_corners=corners)


def pool(
    kind: Operator,
    x: Tensor,
    *,
    kernel_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    pads: Sequence[int] = (0, 0, 0, 0),
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    **_: Any,
) -> Tensor:
    options = {'count_include_pad': bool(count_include_pad)} if kind is F.avg_pool2d else {}
    if tuple(pads[:2]) != tuple(pads[2:]):
        raise lacks('uneven padding')
    return kind(x, kernel_shape, strides or 1, pads[:2], ceil_mode=bool(ceil_mode), **options)


def reduce(kind: Operator) -> Operator:
    """A reduction whose axes are an input, as in opset 18 or later."""

    def run(
        x: Tensor, axes: Tensor | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Tensor:
        if axes is None and noop_with_empty_axes:
            return x
        over = list(range(x.ndim)) if axes is None else axes.tolist()
        return kind(x, dim=over, keepdim=bool(keepdims))

    return run


def squeeze(x: Tensor, axes: Tensor | None = None) -> Tensor:
    return x.squeeze() if axes is None else x.squeeze(tuple(axes.tolist()))


def unsqueeze(x: Tensor, axes: Tensor) -> Tensor:
    rank = x.ndim + axes.numel()
    for axis in sorted(axis % rank for axis in axes.tolist()):
        x = x.unsqueeze(axis)
    return x


def pad(
    x: Tensor,
    pads: Tensor,
    value: Tensor | None = None,
    axes: Tensor | None = None,
    *,
    mode: str = 'constant',
) -> Tensor:
    amounts = [0] * (2 * x.ndim)
    chosen = range(x.ndim) if axes is None else [axis % x.ndim for axis in axes.tolist()]
    half = pads.numel() // 2
    for position, axis in enumerate(chosen):
        amounts[2 * (x.ndim - 1 - axis)] = int(pads[position])
        amounts[2 * (x.ndim - 1 - axis) + 1] = int(pads[half + position])
    if mode != 'constant':
        raise lacks(f'the padding {mode}')
    return F.pad(x, amounts, value=0.0 if value is None else float(value))


def gather(x: Tensor, index: Tensor, *, axis: int = 0) -> Tensor:
    axis %= x.ndim
    shape = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
    return x.index_select(axis, index.flatten().remainder(x.shape[axis])).reshape(shape)


def cast(x: Tensor, *, to: int, saturate: int = 1) -> Tensor:
    name = onnx.helper.tensor_dtype_to_np_dtype(to).name
    return x.to(getattr(torch, name))


def clip(x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    return x if low is None and high is None else x.clamp(low, high)


SAME = (  # in torch, by the name in lower case
    'Abs', 'Add', 'Cos', 'Erf', 'Exp', 'Log', 'MatMul', 'Mul', 'Neg', 'Pow', 'Reciprocal', 'Relu',
    'Sigmoid', 'Sin', 'Sqrt', 'Sub', 'Tanh', 'Where',
)  # fmt: skip
OPERATORS: dict[str, Operator] = {
    **{name: getattr(torch, name.lower()) for name in SAME},
    'And': torch.logical_and,
    'AveragePool': lambda x, **options: pool(F.avg_pool2d, x, **options),
    'BatchNormalization': lambda x, weight, bias, mean, var, epsilon=1e-5, **_: F.batch_norm(
        x, mean, var, weight, bias, eps=epsilon
    ),
    'Cast': cast,
    'Clip': clip,
    'Concat': lambda *tensors, axis: torch.cat(tensors, dim=axis),
    'Constant': lambda value: value,
    'ConstantOfShape': lambda shape, value: value.expand(tuple(shape.tolist())).clone(),
    'Conv': conv,
    'Div': lambda a, b: torch.div(a, b, rounding_mode=None if a.is_floating_point() else 'trunc'),
    'Equal': torch.eq,
    'Expand': lambda x, shape: x.expand(torch.broadcast_shapes(x.shape, shape.tolist())),
    'Flatten': lambda x, axis=1: x.reshape(math.prod(x.shape[:axis]), -1),
    'Gather': gather,
    'Gelu': lambda x, approximate='none': F.gelu(x, approximate=approximate),
    'Gemm': gemm,
    'GlobalAveragePool': lambda x: x.mean((2, 3), keepdim=True),
    'Greater': torch.gt,
    'GreaterOrEqual': torch.ge,
    'GridSample': lambda x, grid, mode='linear', padding_mode='zeros', align_corners=0: (
        F.grid_sample(x, grid, MODES.get(mode, mode), padding_mode, bool(align_corners))
    ),
    'HardSigmoid': lambda x, alpha=0.2, beta=0.5: (alpha * x + beta).clamp(0, 1),
    'HardSwish': F.hardswish,
    'Identity': lambda x: x,
    'InstanceNormalization': lambda x, weight, bias, epsilon=1e-5: F.instance_norm(
        x, weight=weight, bias=bias, eps=epsilon
    ),
    'LayerNormalization': lambda x, weight, bias=None, axis=-1, epsilon=1e-5, stash_type=1: (
        F.layer_norm(x, x.shape[axis:], weight, bias, epsilon)
    ),
    'LeakyRelu': lambda x, alpha=0.01: F.leaky_relu(x, alpha),
    'Less': torch.lt,
    'LessOrEqual': torch.le,
    'Max': lambda *tensors: torch.stack(torch.broadcast_tensors(*tensors)).amax(0),
    'MaxPool': lambda x, **options: pool(F.max_pool2d, x, **options),
    'Min': lambda *tensors: torch.stack(torch.broadcast_tensors(*tensors)).amin(0),
    'Mod': lambda a, b, fmod=0: torch.fmod(a, b) if fmod else torch.remainder(a, b),
    'Not': torch.logical_not,
    'Or': torch.logical_or,
    'Pad': pad,
    'Range': lambda start, end, by: torch.arange(int(start), int(end), int(by)),
    'ReduceL2': reduce(partial(torch.linalg.vector_norm, ord=2)),
    'ReduceMax': reduce(torch.amax),
    'ReduceMean': reduce(torch.mean),
    'ReduceSum': reduce(torch.sum),
    'Reshape': reshape,
    'Resize': resize,
    'Shape': lambda x, start=0, end=None: torch.tensor(x.shape[start:end], dtype=torch.int64),
    'Slice': slice_,
    'Softmax': lambda x, axis=-1: x.softmax(axis),
    'Split': split,
    'Squeeze': squeeze,
    'Tile': lambda x, repeats: x.tile(tuple(repeats.tolist())),
    'Transpose': lambda x, perm=None: x.permute(perm or tuple(range(x.ndim))[::-1]),
    'Unsqueeze': unsqueeze,
}
