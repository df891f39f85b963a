"""Quantization-aware fine-tuning of an int8 ONNX graph, with the float graph as teacher.

The graph itself is trained, with rounding where onnxruntime placed it, so that the file computes
what was trained. NNCF's rounding needs a compiler, and torchao rounds elsewhere.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mmeffvit.utils.messages import step

from .torch_graph import TorchGraph

LEARNING_RATE = 2e-5  # of weights and biases, relative to the largest value of each
SCALE_RATE = 2e-3  # of the logarithms of scales
WARMUP = 0.1  # fraction of the steps
BATCH = 4  # images, if the file takes several and they have one size
HIGHEST = 255  # of an activation, uint8


@dataclass(frozen=True)
class Weight:
    """An int8 constant: names of its integers and its scale, and its axis of channels."""

    name: str
    scale: str
    axis: int


@dataclass(frozen=True)
class Bias:
    """An int32 constant, whose scale is the product of those of the layer's input and weight."""

    name: str
    scale: str
    factors: tuple[str, str]


@dataclass(frozen=True)
class Activation:
    """A uint8 tensor: names of its scale and zero point."""

    scale: str
    zero_point: str


class FakeQuantized(nn.Module):
    """A QDQ graph of onnxruntime in PyTorch, with float weights and learned ranges.

    Weights are rounded to int8 with a learned scale per channel, activations to uint8 between a
    learned minimum and a learned maximum (LSQ+, arXiv:2004.09576, equations 1 to 5). Rounding has
    the gradient of the identity. Biases are not rounded: they have 32 bits.

    Args:
        model: The QDQ model.
        outputs: Names of the values to compute.
        weights: Float weights by the name of their integers.
        weight_bits: 7 or 8.

    Shape:
        (B, 3, H, W) -> the outputs by name.
    """

    def __init__(
        self, model: Any, outputs: Sequence[str], weights: Mapping[str, NDArray], weight_bits: int
    ) -> None:
        super().__init__()
        rounding = {
            'QuantizeLinear': fake_quantize,
            'DequantizeLinear': lambda value, *_, **__: value,  # it is rounded already
        }
        self.graph = TorchGraph(model, outputs, rounding)
        self.highest_weight = 2 ** (weight_bits - 1) - 1
        constants = self.graph.constants
        self.weights, self.biases, self.activations = quantized_constants(model, constants)
        self.values = nn.ParameterDict()
        self.factors = nn.ParameterDict()  # logarithms
        self.initial: dict[str, Tensor] = {}
        for each in self.weights:
            self.values[key(each.name)] = torch.from_numpy(weights[each.name].copy())
            self.initial[each.scale] = constants[each.scale]
            self.factors[key(each.scale)] = torch.zeros_like(constants[each.scale])
        for each in self.biases:
            self.values[key(each.name)] = constants[each.name] * constants[each.scale]
        for each in self.activations:
            scale, zero = constants[each.scale], constants[each.zero_point].float()
            self.initial[each.scale] = scale * torch.stack([-zero, HIGHEST - zero])  # the range
            self.factors[key(each.scale)] = torch.zeros(2)

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        self.graph.constants.update(self.constants())
        return self.graph(image)

    def constants(self) -> dict[str, Tensor]:
        """Rounded weights, biases, scales and zero points by name."""
        found = {}
        for each in self.weights:
            scale = self.weight_scale(each)
            found[each.name] = self.integers(each) * along(
                scale, each.axis, self.values[key(each.name)]
            )
        for each in self.biases:
            found[each.name] = self.values[key(each.name)]
        for each in self.activations:
            found[each.scale], found[each.zero_point] = self.activation_scale(each)
        return found

    def weight_scale(self, weight: Weight) -> Tensor:
        return self.initial[weight.scale] * self.factors[key(weight.scale)].exp()

    def activation_scale(self, activation: Activation) -> tuple[Tensor, Tensor]:
        """Scale and zero point between the learned minimum and maximum."""
        low, high = self.initial[activation.scale] * self.factors[key(activation.scale)].exp()
        scale = (high - low) / HIGHEST
        return scale, rounded(-low / scale)

    def integers(self, weight: Weight) -> Tensor:
        value = self.values[key(weight.name)]
        scaled = value / along(self.weight_scale(weight), weight.axis, value)
        return rounded(scaled.clamp(-self.highest_weight, self.highest_weight))

    @torch.no_grad()
    def trained(self) -> dict[str, NDArray]:
        """Values of the initializers by name, for any model with the same rounding."""
        found: dict[str, Tensor] = {}
        for each in self.activations:
            scale, zero = self.activation_scale(each)
            found |= {each.scale: scale, each.zero_point: zero.to(torch.uint8)}
        for each in self.weights:
            found[each.scale] = self.weight_scale(each)
            found[each.name] = self.integers(each).to(torch.int8)
        for each in self.biases:
            scale = found[each.factors[0]].double() * found[each.factors[1]].double()
            integers = (self.values[key(each.name)] / scale).round()
            limits = torch.iinfo(torch.int32)
            found[each.name] = integers.clamp(limits.min, limits.max).to(torch.int32)
            found[each.scale] = scale.float()
        return {name: value.numpy() for name, value in found.items()}

    def parameter_groups(self) -> Iterator[dict[str, Any]]:
        """Parameters with their learning rates."""
        for value in self.values.values():
            yield dict(params=[value], lr=LEARNING_RATE * float(value.detach().abs().max()))
        yield dict(params=list(self.factors.values()), lr=SCALE_RATE)


def quantized_constants(
    model: Any, used: Mapping[str, Tensor]
) -> tuple[list[Weight], list[Bias], list[Activation]]:
    """What is rounded in a QDQ model, as far as it is used."""
    makers = {name: node for node in model.graph.node for name in node.output}
    weights, biases, activations = {}, {}, {}
    for node in model.graph.node:
        if node.op_type == 'QuantizeLinear' and node.input[1] in used:
            activations[node.input[1]] = Activation(*node.input[1:3])
        sources = [makers.get(name) for name in node.input]
        for source in sources:
            if source is None or source.op_type != 'DequantizeLinear':
                continue
            name, scale = source.input[:2]
            if name not in used:
                continue
            if used[name].dtype == torch.int8:
                axis = next((each.i for each in source.attribute if each.name == 'axis'), 0)
                weights[name] = Weight(name, scale, axis)
            elif used[name].dtype == torch.int32:
                factors = sources[0].input[1], sources[1].input[1]
                biases[name] = Bias(name, scale, factors)
    return list(weights.values()), list(biases.values()), list(activations.values())


def finetune(
    model: Any,
    teacher: Any,
    targets: Sequence[str],
    weight_bits: int,
    images: Sequence[NDArray],
    steps: int,
) -> dict[str, NDArray]:
    """Train the weights and ranges of a QDQ model to compute what the float model does.

    The loss is the mean of :func:`noise` over the targets, the optimizer Adam with a linear warmup
    and a cosine decay; half of the images are flipped.

    Args:
        model: The QDQ model.
        teacher: The float model.
        targets: Names of values of both to compare.
        weight_bits: 7 or 8.
        images: Training images (1, 3, H, W).
        steps: Number of steps.

    Returns:
        Values of the model's initializers by name.
    """
    ends = [rounded_value(model, name) for name in targets]
    student = FakeQuantized(model, ends, float_weights(model, teacher), weight_bits)
    expected = TorchGraph(teacher, targets)
    optimizer = torch.optim.Adam(student.parameter_groups())
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: rate(done / steps))
    generator = torch.Generator().manual_seed(0)
    for done in range(steps):
        image = batch(model, images, generator)
        with torch.no_grad():
            signals = expected(image)
            weights = importance(signals)
        found = student(image)
        noises = [
            noise(found[end], signals[name], weights[name])
            for end, name in zip(ends, targets, strict=True)
        ]
        loss = torch.stack(noises).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if done % max(steps // 5, 1) == 0 or done == steps - 1:
            step(f'int8 step {done + 1}/{steps}  noise {10 * math.log10(loss.item()):.1f} dB')
    return student.trained()


def rounded_value(model: Any, name: str) -> str:
    """The value after rounding, if a value is rounded."""
    for kind in ('QuantizeLinear', 'DequantizeLinear'):
        users = (
            node for node in model.graph.node if node.op_type == kind and node.input[0] == name
        )
        node = next(users, None)
        name = node.output[0] if node else name
    return name


def float_weights(model: Any, source: Any) -> dict[str, NDArray]:
    """Weights of the float model, by the names of their integers in the QDQ model."""
    floats = {f'{each.name}_quantized': each for each in source.graph.initializer}
    return {
        each.name: onnx.numpy_helper.to_array(floats[each.name])
        for each in model.graph.initializer
        if each.name in floats and each.data_type == onnx.TensorProto.INT8
    }


def batch(model: Any, images: Sequence[NDArray], generator: torch.Generator) -> Tensor:
    """Random images (B, 3, H, W), each flipped horizontally or not."""
    fixed = model.graph.input[0].type.tensor_type.shape.dim[0].dim_value
    sizes = {image.shape for image in images}
    count = fixed or (BATCH if len(sizes) == 1 else 1)
    chosen = torch.randint(len(images), (count,), generator=generator).tolist()
    flips = torch.rand(count, generator=generator).tolist()
    rows = [
        images[index][..., :: -1 if flip < 0.5 else 1]
        for index, flip in zip(chosen, flips, strict=True)
    ]
    return torch.from_numpy(np.concatenate(rows))


def importance(signals: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights of the positions of values, by name.

    A position weighs 1 plus the largest squared standard score of a channel there, in any value of
    the same size: otherwise the few positions with an object would be lost among those without.
    """
    scores: dict[torch.Size, Tensor] = {}
    sizes = {}
    for name, signal in signals.items():
        channels = 1 if signal.ndim == 4 else signal.ndim - 1  # (B, C, H, W), or tokens (B, N, C)
        over = tuple(axis for axis in range(signal.ndim) if axis != channels)
        std, mean = torch.std_mean(signal, over, keepdim=True, correction=0)
        score = ((signal - mean) / std.clamp(min=1e-6)).square().amax(channels, keepdim=True)
        sizes[name] = score.shape
        scores[score.shape] = torch.maximum(score, scores.get(score.shape, score))
    return {name: 1 + scores[size] for name, size in sizes.items()}


def noise(found: Tensor, signal: Tensor, weight: Tensor) -> Tensor:
    """Weighted power of the difference relative to the variance of the signal."""
    power = signal.var(correction=0).clamp(min=1e-12)
    return (weight * (found - signal).square()).mean() / (weight.mean() * power)


def rate(share: float) -> float:
    """Factor of the learning rate after a share of the steps."""
    return min(1.0, share / WARMUP) * (1 + math.cos(math.pi * share)) / 2


def key(name: str) -> str:
    """A name as a key of a parameter dict, which may not have dots."""
    return name.replace('.', '/')


def along(scale: Tensor, axis: int, value: Tensor) -> Tensor:
    """A scale per channel in the shape that multiplies a value."""
    if scale.ndim == 0:
        return scale
    sides = [1] * value.ndim
    sides[axis] = -1
    return scale.reshape(sides)


def rounded(value: Tensor) -> Tensor:
    """Round with the gradient of the identity."""
    return value + (value.round() - value).detach()


def fake_quantize(value: Tensor, scale: Tensor, zero_point: Tensor, **_: Any) -> Tensor:
    """Round to the levels of a uint8 tensor."""
    levels = (rounded(value / scale) + zero_point).clamp(0, HIGHEST)
    return (levels - zero_point) * scale
