"""Static int8 quantization of an OpenVINO model by NNCF."""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any

from numpy.typing import NDArray

from mmeffvit.deploy.int8.sensitivity import (
    IMAGES,
    SELECTING,
    exclusions,
    last_layers,
    mean_noise,
    measure,
)
from mmeffvit.deploy.int8.trials import Attempt
from mmeffvit.errors import UserError
from mmeffvit.utils.optional import require
from mmeffvit.utils.quiet import quiet
from mmeffvit.utils.text import reason

from .open import open_openvino
from .write import convert_onnx, save_openvino

PURPOSE = 'Quantizing for OpenVINO'
LAYERS = ('Convolution', 'GroupConvolution', 'ConvolutionBackpropData', 'MatMul')
# coordinates are not rounded to 8 bits: neither those of objects, nor those of sampled points
COORDINATES = (*SELECTING, 'ROIAlign', 'GridSample', 'GatherElements', 'GatherND')
CONSTANT = ('Constant', 'Convert', 'Subtract', 'Multiply', 'Reshape', 'Transpose')  # of weights


class OpenVINOQuantizer:
    """Quantizes an ONNX file to an OpenVINO model in int8, with 8-bit weights per channel.

    NNCF chooses what is quantized between the layers, such as sums and norms. What follows the last
    layer, and what computes coordinates, remain in float.

    Args:
        path: The ONNX file.
        images: Calibration images (1, 3, H, W).

    Attributes:
        nodes: Names of the layers with weights, in topological order.
    """

    def __init__(self, path: str | os.PathLike, images: Sequence[NDArray]) -> None:
        require('nncf', PURPOSE)
        self.path = path
        self.images = images
        model = convert_onnx(self.path)
        self.nodes = [op.get_friendly_name() for op in layers(model)]
        self.in_float = float_operators(model)

    def attempts(self) -> Iterator[Attempt]:
        count = len(self.nodes)
        yield attempt_of(self.quantized((), 'PERFORMANCE'), count, 'symmetric activations')
        model = self.quantized((), 'MIXED')
        yield attempt_of(model, count)
        for worst in exclusions(measure(self.nodes, self.noise_meter(model))):
            yield attempt_of(without(model, worst), count, excluded=worst)

    def attempt(self, excluded: Sequence[str]) -> Attempt:
        return attempt_of(self.quantized(excluded, 'MIXED'), len(self.nodes), excluded=excluded)

    def quantized(self, excluded: Sequence[str], preset: str) -> Any:
        """A model in int8.

        Args:
            excluded: Names of layers that remain in float.
            preset: NNCF's 'PERFORMANCE' for symmetric activations, 'MIXED' for asymmetric ones.

        Raises:
            UserError: If OpenVINO cannot run the file.
        """
        nncf = require('nncf', PURPOSE)
        ignored = nncf.IgnoredScope(names=[*self.in_float, *excluded], validate=False)
        try:
            with quiet():
                return nncf.quantize(
                    convert_onnx(self.path),
                    nncf.Dataset(self.images),
                    preset=nncf.QuantizationPreset[preset],
                    subset_size=len(self.images),
                    ignored_scope=ignored,
                )
        except RuntimeError as error:
            raise UserError(
                f'OpenVINO cannot run {self.path} ({reason(error)}); an int8 file for ONNX Runtime '
                'ends in .onnx'
            ) from error

    def noise_meter(self, model: Any) -> Callable[[Sequence[str]], float]:
        """A function that measures how much less noise a model has without some layers in int8."""
        float_model = convert_onnx(self.path)
        ends = last_names(float_model)
        images = self.images[:IMAGES]

        def run(each: Any) -> list[dict[str, NDArray]]:
            session = open_openvino(with_outputs(each, ends))
            return [
                dict(zip(ends, list(session.run(image).values())[-len(ends) :], strict=True))
                for image in images
            ]

        expected = run(float_model)
        total = mean_noise(expected, run(model))
        return lambda nodes: max(0.0, total - mean_noise(expected, run(without(model, nodes))))


def attempt_of(
    model: Any,
    count: int,
    settings: str = 'asymmetric activations',
    excluded: Sequence[str] = (),
) -> Attempt:
    """A model with ``count`` layers, of which the excluded ones remain in float."""
    return Attempt(
        settings,
        tuple(excluded),
        count - len(excluded),
        partial(open_openvino, model),
        partial(save_openvino, model),
    )


def is_layer(op: Any) -> bool:
    """Whether an operator is a convolution or a matrix product with a weight."""
    return op.get_type_name() in LAYERS and any(
        is_constant(op.input_value(index).get_node()) for index in (0, 1)
    )


def is_constant(op: Any) -> bool:
    """Whether an operator is a constant, or only unpacks one."""
    if op.get_type_name() not in (*CONSTANT, 'FakeQuantize'):
        return False
    return all(is_constant(value.get_node()) for value in op.input_values()[:1])


def layers(model: Any) -> Iterator[Any]:
    return filter(is_layer, model.get_ordered_ops())


def float_operators(model: Any) -> list[str]:
    """Names of the operators that remain in float.

    Those after the last layer, and those between layers and coordinates: the range of object
    features is measured where the levels of a pyramid are joined, since one level may have no
    objects in all calibration images.
    """
    operators = model.get_ordered_ops()
    followed: set[str] = set()  # by a layer
    around: set[str] = set()  # with coordinates before the next, or after the last, layer
    for op in reversed(operators):
        users = [user.get_node() for out in op.outputs() for user in out.get_target_inputs()]
        names = {user.get_friendly_name() for user in users}
        if any(map(is_layer, users)) or names & followed:
            followed.add(op.get_friendly_name())
        if _near_coordinates(users, around):
            around.add(op.get_friendly_name())
    behind: set[str] = set()
    for op in operators:
        inputs = [value.get_node() for value in op.input_values()]
        if op.get_type_name() in COORDINATES or _near_coordinates(inputs, behind):
            behind.add(op.get_friendly_name())
    return [
        op.get_friendly_name()
        for op in operators
        if not is_layer(op)
        and (op.get_friendly_name() in around | behind or op.get_friendly_name() not in followed)
        and op.get_type_name() not in ('Constant', 'Parameter', 'Result')
    ]


def _near_coordinates(neighbors: Sequence[Any], known: Collection[str]) -> bool:
    return any(
        op.get_type_name() in COORDINATES or (op.get_friendly_name() in known and not is_layer(op))
        for op in neighbors
    )


def last_names(model: Any) -> list[str]:
    """Names of the last layers, see :func:`.sensitivity.last_layers`."""
    ends, _ = last_layers(
        (
            [op.get_friendly_name()],
            {value.get_node().get_friendly_name() for value in op.input_values()},
            op.get_type_name(),
            is_layer(op),
        )
        for op in model.get_ordered_ops()
    )
    return ends


def with_outputs(model: Any, names: Sequence[str]) -> Any:
    """A copy with the outputs of layers as further outputs."""
    model = model.clone()
    by_name = {op.get_friendly_name(): op for op in model.get_ops()}
    for index, name in enumerate(names):
        (result,) = model.add_outputs([after_bias(by_name[name]).output(0)])
        result.get_tensor().add_names({f'end_{index}'})
    return model


def after_bias(op: Any) -> Any:
    """The operator that adds the bias of a layer, which NNCF corrects, or the layer itself."""
    users = [user.get_node() for user in op.output(0).get_target_inputs()]
    if [user.get_type_name() for user in users] != ['Add']:
        return op
    terms = [value.get_node() for value in users[0].input_values()]
    return users[0] if any(map(is_constant, terms)) else op


def without(model: Any, names: Sequence[str]) -> Any:
    """A copy in which layers take unquantized inputs, and so compute in float.

    Their weights keep the rounding to 8 bits per channel, which costs little.
    """
    model = model.clone()
    for op in model.get_ops():
        if op.get_friendly_name() not in names:
            continue
        for value in op.inputs():
            source = value.get_source_output().get_node()
            if source.get_type_name() == 'FakeQuantize' and not is_constant(source):
                value.replace_source_output(source.input_value(0))
    return model
