"""Static int8 quantization of all or some nodes of an ONNX graph by onnxruntime."""

import copy
import os
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import onnx
from numpy.typing import NDArray

from mmeffvit.deploy.int8.sensitivity import IMAGES, exclusions, mean_noise, measure
from mmeffvit.deploy.int8.trials import Attempt
from mmeffvit.utils.machine import has_int8_dot_product
from mmeffvit.utils.optional import require
from mmeffvit.utils.quiet import quiet

from . import rewrite
from .open import open_onnx

PURPOSE = 'Quantizing'
WEIGHTED = ('Conv', 'ConvTranspose', 'Gemm', 'MatMul')  # their second input may be a weight
FUSED = ('Relu', 'Clip')  # fused into the preceding convolution
GATES = ('Sigmoid', 'Mul')  # of SiLU and GELU
SELECTING = ('TopK', 'NonMaxSuppression', 'NonZero', 'ArgMax')  # objects


class Quantizer:
    """Quantizes any convolutions and matrix products of a graph to int8.

    In QDQ format: weights are int8 with a scale per output channel, with 7 bits where the CPU has
    no int8 dot product; their inputs and outputs are uint8 with a scale and a zero point per tensor
    from the observed minimum and maximum. SiLU and GELU after them are int8, too: in float they
    would cost more than the convolutions gain, with a conversion before and after each. The
    convolution of the image, a detector's last 1x1 convolutions and SiLU or GELU before these,
    products of two activations (attention), softmax, norms, other activation functions and
    post-processing remain in float.

    Attributes:
        weight_bits: 7 or 8.
        float_model: The graph, simplified for quantization.
        nodes: Names of the quantizable nodes, in topological order.
    """

    def __init__(self, path: str | os.PathLike, images: Sequence[NDArray]) -> None:
        self.images = images
        self.weight_bits = 8 if has_int8_dot_product() else 7
        self.tools = require('onnxruntime.quantization', PURPOSE)
        with tempfile.TemporaryDirectory() as folder, quiet():
            simplified = Path(folder, 'simplified.onnx')
            # symbolic shape inference fails on unknown operators; onnx's own continues, and only
            # types are needed
            self.tools.shape_inference.quant_pre_process(
                str(path), str(simplified), skip_symbolic_shape=True
            )
            self.float_model = onnx.load(simplified)
        rewrite.rename_numbered(self.float_model)
        rewrite.approximate_gelu(self.float_model)
        self.float_model = rewrite.resize_in_two_steps(self.float_model)
        self.precise = precise_layers(self.float_model)
        nodes = (node.name for node in weighted_nodes(self.float_model))
        self.nodes = [name for name in nodes if name not in self.precise]

    def quantized(
        self,
        nodes: Collection[str],
        outputs: Sequence[str] | None = None,
        images: Sequence[NDArray] | None = None,
    ) -> Any:
        """A model with ``nodes`` in int8, and ``outputs`` as its outputs if given.

        It is calibrated on ``images``, by default on all.
        """
        model = self.with_outputs(outputs)
        if not nodes:  # an empty list would mean all nodes
            return model
        kinds = self.tools.QuantType
        name = model.graph.input[0].name
        feeds = ({name: image} for image in images or self.images)

        class Reader(self.tools.CalibrationDataReader):
            def get_next(self) -> dict[str, NDArray] | None:
                return next(feeds, None)

        with tempfile.TemporaryDirectory() as folder, quiet():
            out = Path(folder, 'int8.onnx')
            self.tools.quantize_static(
                model,
                out,
                Reader(),
                op_types_to_quantize=[*WEIGHTED, *FUSED, *GATES],
                per_channel=True,
                # x86 without VNNI adds two products in 16 bits, which saturates with 8 bits
                reduce_range=self.weight_bits == 7,
                # signed activations are slower than float on x86, which multiplies u8 by s8
                activation_type=kinds.QUInt8,
                weight_type=kinds.QInt8,
                nodes_to_quantize=[*nodes, *fused_after(model, nodes, self.precise)],
            )
            return rewrite.drop_slopes(onnx.load(out))

    def attempts(self) -> Iterator[Attempt]:
        yield self.attempt(())
        yield from map(self.attempt, exclusions(measure(self.nodes, self.noise_meter())))

    def attempt(self, excluded: Sequence[str]) -> Attempt:
        chosen = [name for name in self.nodes if name not in set(excluded)]
        model = self.quantized(chosen)
        return Attempt(
            f'{self.weight_bits}-bit weights',
            tuple(excluded),
            len(self.nodes) - len(excluded),
            lambda threads: open_onnx(model.SerializeToString(), threads),
            partial(save, model),
        )

    def noise_meter(self) -> Callable[[Sequence[str]], float]:
        """A function that measures the noise of a model with only some nodes in int8."""
        ends = last_values(self.float_model)
        images = self.images[:IMAGES]

        def run(model: Any) -> list[dict[str, NDArray]]:
            session = open_onnx(model.SerializeToString())
            return [session.run(image) for image in images]

        expected = run(self.with_outputs(ends))
        return lambda nodes: mean_noise(expected, run(self.quantized(nodes, ends, images)))

    def with_outputs(self, outputs: Sequence[str] | None) -> Any:
        model = copy.deepcopy(self.float_model)
        if outputs is not None:
            del model.graph.output[:]
            model.graph.output.extend(
                onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
                for name in outputs
            )
        return model


def save(model: Any, path: Path, metadata: Mapping[str, str]) -> None:
    onnx.helper.set_model_props(model, dict(metadata))
    onnx.save(model, path)


def weighted_nodes(model: Any) -> Iterator[Any]:
    """Nodes whose second input is a constant: convolutions and matrix products with a weight.

    Constants of ones are no weights: they compute sums, such as squares of a norm, which need
    range. The convolution of the image is left out: gathering pixels of three bytes takes
    onnxruntime longer than the convolution in float.
    """
    constants = {
        tensor.name
        for tensor in model.graph.initializer
        if not (onnx.numpy_helper.to_array(tensor) == 1).all()
    }
    shapes = shapes_of(model)
    constants |= {out for node in model.graph.node if node.op_type == 'Constant'
                  for out in node.output}  # fmt: skip
    for node in model.graph.node:
        if node.op_type not in WEIGHTED or node.input[1] not in constants:
            continue
        if not is_of_image(node, shapes.get(node.input[1], ())):
            yield node


def is_of_image(node: Any, weight: Sequence[int]) -> bool:
    """Whether a node with such a weight convolves more than one pixel of 2 to 4 channels."""
    groups = sum(attribute.i for attribute in node.attribute if attribute.name == 'group')
    return groups <= 1 and len(weight) == 4 and 2 <= weight[1] <= 4 and max(weight[2:]) > 1


def shapes_of(model: Any) -> dict[str, list[int]]:
    """The shapes of the constants."""
    return {constant.name: list(constant.dims) for constant in model.graph.initializer}


def fused_after(model: Any, nodes: Collection[str], precise: Collection[str]) -> list[str]:
    """Activations that are the only users of the outputs of ``nodes``: ReLU, SiLU and such.

    Without SiLU and GELU before ``precise`` layers, which read floats anyway: rounding them to
    eight bits would move boxes, and would not be faster.
    """
    users = rewrite.users_of(model)
    kept = {output.name for output in model.graph.output}
    fused = []
    for node in model.graph.node:
        after = users.get(node.output[0], [])
        if node.name not in nodes or node.output[0] in kept:
            continue
        if len(after) == 1 and after[0].op_type in FUSED:
            fused.append(after[0].name)
        gate = gate_after(after, users)
        if gate and not any(user.name in precise for user in users.get(gate[-1].output[0], [])):
            fused += [each.name for each in gate]
    return fused


def gate_after(after: Sequence[Any], users: Mapping[str, Sequence[Any]]) -> list[Any]:
    """The nodes of SiLU or approximated GELU, if they are the only users of a tensor.

    Without the factor of GELU, which :func:`.rewrite.drop_slopes` drops.
    """
    if len(after) != 2 or after[1].op_type != 'Mul':
        return []
    gate, product = after
    if rewrite.SLOPE in gate.input:
        (gate,) = users[gate.output[0]]
    is_gate = gate.op_type == 'Sigmoid' and users.get(gate.output[0]) == [product]
    return [gate, product] if is_gate else []


def precise_layers(model: Any) -> set[str]:
    """The 1x1 convolutions at the end of a detector: eight bits would move small boxes visibly."""
    if not {'TopK', 'NonMaxSuppression'} & {node.op_type for node in model.graph.node}:
        return set()
    ends, shapes = last_values(model), shapes_of(model)
    return {
        node.name
        for node in model.graph.node
        if node.output[0] in ends
        and node.op_type == 'Conv'
        and shapes.get(node.input[1], [])[2:] == [1, 1]
    }


def last_values(model: Any) -> list[str]:
    """Tensors at the end of the network: outputs that are maps, else outputs of the last layers.

    Noise is measured there. After a selection of objects, a reordering would look like noise.
    """
    weighted = {node.name for node in weighted_nodes(model)}
    selected: set[str] = set()  # tensors after a selection
    nearest: dict[str, set[str]] = {}  # by tensor, the last layers that it depends on
    ends: dict[str, None] = {}
    for node in model.graph.node:
        if node.op_type in SELECTING or selected.intersection(node.input):
            selected.update(node.output)
            continue
        sources = set().union(*(nearest.get(name, set()) for name in node.input))
        if node.name in weighted:
            for name in sources:
                ends.pop(name, None)
            ends[node.output[0]] = None
            sources = {node.output[0]}
        nearest.update(dict.fromkeys(node.output, sources))
    maps = [
        output.name
        for output in model.graph.output
        if output.name not in selected
        and output.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    ]
    return maps or list(ends)
