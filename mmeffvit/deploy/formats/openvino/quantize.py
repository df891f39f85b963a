"""Static int8 quantization of an OpenVINO model by NNCF."""

import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from numpy.typing import NDArray

from mmeffvit.deploy.int8.trials import Attempt
from mmeffvit.errors import UserError
from mmeffvit.utils.optional import require
from mmeffvit.utils.quiet import quiet
from mmeffvit.utils.text import reason

from .open import open_openvino
from .write import convert_onnx, save_openvino

LAYERS = ('Convolution', 'GroupConvolution', 'ConvolutionBackpropData', 'MatMul')
SELECTING = ('TopK', 'NonMaxSuppression')
CONSTANT = ('Constant', 'Convert', 'Subtract', 'Multiply', 'Reshape', 'Transpose')  # of weights


class Quantizer:
    """Quantizes an ONNX file to an OpenVINO model in int8, with 8-bit weights per channel.

    NNCF chooses what is quantized between the layers, such as sums and norms. The last 1x1
    convolutions of a detector or segmentor and their inputs stay in float.

    Attributes:
        nodes: Names of the quantizable layers, in topological order.
    """

    def __init__(self, path: str | os.PathLike, images: Sequence[NDArray]) -> None:
        self.nncf = require('nncf', 'Quantizing for OpenVINO')
        self.path = path
        self.images = images
        self.model = convert_onnx(self.path)
        self.precise = precise_layers(self.model)
        layers = (op.get_friendly_name() for op in self.model.get_ordered_ops() if is_layer(op))
        self.nodes = [name for name in layers if name not in self.precise]

    def attempts(self) -> Iterator[Attempt]:
        yield self.attempt((), 'PERFORMANCE', 'symmetric activations')
        yield self.attempt(())

    def attempt(
        self,
        excluded: Sequence[str],
        preset: str = 'MIXED',
        settings: str = 'asymmetric activations',
    ) -> Attempt:
        """Quantize all layers but ``excluded``; UserError if OpenVINO cannot run the file."""
        try:
            with quiet():
                model = self.nncf.quantize(
                    self.model.clone(),
                    self.nncf.Dataset(self.images),
                    preset=self.nncf.QuantizationPreset[preset],
                    subset_size=len(self.images),
                    ignored_scope=self.nncf.IgnoredScope(names=[*excluded, *self.precise]),
                )
        except RuntimeError as error:
            raise UserError(
                f'OpenVINO cannot run {self.path} ({reason(error)}); an int8 file for ONNX Runtime '
                'ends in .onnx'
            ) from error
        return Attempt(
            settings,
            tuple(excluded),
            len(self.nodes) - len(excluded),
            partial(open_openvino, model),
            partial(save_openvino, model),
        )


def precise_layers(model: Any) -> set[str]:
    """The last 1x1 convolutions: eight bits would move small boxes visibly."""
    reached = [op for op in model.get_ordered_ops() if op.get_type_name() in SELECTING]
    seen: set[str] = set()
    precise: set[str] = set()
    while reached:
        op = reached.pop()
        name, kind = op.get_friendly_name(), op.get_type_name()
        if name in seen or kind == 'ShapeOf':
            continue
        seen.add(name)
        if not is_layer(op):
            reached += [value.get_node() for value in op.input_values()]
        elif kind == 'Convolution' and op.input(1).get_shape()[2:] == (1, 1):
            precise.add(name)
    return precise


def is_layer(op: Any) -> bool:
    """Whether an operator is a convolution or a matrix product with a weight."""
    return op.get_type_name() in LAYERS and any(
        is_constant(op.input_value(index).get_node()) for index in (0, 1)
    )


def is_constant(op: Any) -> bool:
    """Whether an operator is a constant, or only unpacks one."""
    if op.get_type_name() not in CONSTANT:
        return False
    return all(is_constant(value.get_node()) for value in op.input_values()[:1])
