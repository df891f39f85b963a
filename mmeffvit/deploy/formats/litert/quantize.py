"""Static int8 quantization of LiteRT files by ai-edge-quantizer."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmeffvit.deploy.int8.trials import Attempt
from mmeffvit.deploy.runtime.sessions import INPUT
from mmeffvit.errors import UserError
from mmeffvit.utils.optional import require
from mmeffvit.utils.quiet import quiet

from .open import open_litert, save_litert

PURPOSE = 'Quantizing for LiteRT'
SIGNATURE = 'serving_default'
WEIGHTED = ('CONV_2D', 'DEPTHWISE_CONV_2D', 'FULLY_CONNECTED')
BETWEEN = ('PAD', 'LOGISTIC')  # next to weighted operators: in float they would be converted twice
MAX_BIAS = 2**30  # of int32


class Quantizer:
    """Quantizes a LiteRT file, all layers with weights together.

    Attributes:
        nodes: Names of the outputs of the layers with weights, in topological order.
    """

    def __init__(self, path: str | os.PathLike, images: Sequence[NDArray]) -> None:
        flatbuffer = require('ai_edge_litert.tools.flatbuffer_utils', PURPOSE)
        self.content = Path(path).read_bytes()
        self.images = images
        parsed = flatbuffer.read_model_from_bytearray(bytearray(self.content))
        self.nodes = [output.name.decode() for *_, output in weighted(parsed)]

    def attempts(self) -> Iterator[Attempt]:
        yield self.attempt(())

    def attempt(self, excluded: Sequence[str]) -> Attempt:
        """Quantize all layers; UserError if one is to be kept in float."""
        if excluded:
            raise UserError(
                f'--exclude is {" ".join(excluded)}; a .tflite is quantized as a whole: choose '
                'auto or none, or quantize the .onnx file'
            )
        content, count = int8_litert(self.content, self.images)
        return Attempt(
            '8-bit weights',
            (),
            count,
            partial(open_litert, content),
            lambda path, metadata: save_litert(path, content, metadata),
        )


def int8_litert(model: bytes, images: Iterable[NDArray]) -> tuple[bytes, int]:
    """A model with int8 convolutions, dense layers and SiLU, and the number of the first two.

    Weights have 8 bits and a scale per output channel; activations have a scale and a zero point
    per tensor from the observed minimum and maximum. Inputs, outputs, sums, norms, softmax,
    products of two activations (attention) and the end of a detector remain in float.
    """
    tools = require('ai_edge_quantizer.quantizer', PURPOSE)
    flatbuffer = require('ai_edge_litert.tools.flatbuffer_utils', PURPOSE)
    inputs = [{INPUT: np.ascontiguousarray(each.transpose(0, 2, 3, 1))} for each in images]
    mode = tools.calibrator.CalibrationMode.CALIBRATION_PROFILER_BASED
    with quiet():
        parsed = flatbuffer.read_model_from_bytearray(bytearray(model))
        silu, precise = list(silu_products(parsed)), set(end_of_detector(parsed))
        work = prepared(tools, model, silu, precise)
        ranges = work.calibrate({SIGNATURE: inputs}, num_threads=1, mode=mode)
        lift_dead_channels(parsed, ranges)
        count = sum(output.name.decode() not in precise for *_, output in weighted(parsed))
        lifted = bytes(flatbuffer.convert_object_to_bytearray(parsed))
        work = prepared(tools, lifted, silu, precise)
        result = work.quantize(ranges, enable_progress_bar=False, enable_progress_report=False)
        parsed = flatbuffer.read_model_from_bytearray(bytearray(result.quantized_model))
        restore_outputs(parsed)
        return bytes(flatbuffer.convert_object_to_bytearray(parsed)), count


def prepared(tools: Any, model: bytes, silu: Iterable[str], precise: Iterable[str]) -> Any:
    """A quantizer that knows the operators to quantize.

    These include the products ``silu`` and exclude ``precise`` operators, given by their outputs.
    """
    work = tools.Quantizer(model)
    chosen = [('.*', name) for name in (*WEIGHTED, *BETWEEN)]
    chosen += [(scope_of(output), 'MUL') for output in silu]
    for scope, name in chosen:
        work.add_static_config(scope, name, activation_num_bits=8, weight_num_bits=8)
    for output in precise:
        work.update_quantization_recipe(scope_of(output), '*', algorithm_key='no_quantize')
    return work


def scope_of(output: str) -> str:
    """A pattern for the operator with this output."""
    return f'^{re.escape(output)};?$'


def end_of_detector(model: Any) -> Iterator[str]:
    """Outputs of the last 1x1 convolutions of a detector, of SiLU before them and all after them.

    Eight bits there would move small boxes visibly, and would not be faster.
    """
    for signature in model.signatureDefs:
        if b'boxes' not in [output.name for output in signature.outputs]:
            continue
        graph = model.subgraphs[signature.subgraphIndex]
        after, before = {output.tensorIndex for output in signature.outputs}, set()
        for name, operator in reversed(named_operators(model, graph)):
            if after.intersection(operator.outputs) and name not in WEIGHTED:
                after.update(operator.inputs)
            elif after.intersection(operator.outputs) and is_1x1(graph, operator):
                before.add(operator.inputs[0])
            elif before.intersection(operator.outputs) and name in ('LOGISTIC', 'MUL'):
                before.update(operator.inputs)
            else:
                continue
            yield graph.tensors[operator.outputs[0]].name.decode()


def named_operators(model: Any, graph: Any) -> list[tuple[str, Any]]:
    """The operators of a graph in topological order, with the names of their kinds."""
    name_of = require('ai_edge_litert.tools.flatbuffer_utils', PURPOSE).opcode_to_name
    return [(name_of(model, operator.opcodeIndex), operator) for operator in graph.operators]


def is_1x1(graph: Any, layer: Any) -> bool:
    """Whether a layer is a 1x1 convolution."""
    return list(graph.tensors[layer.inputs[1]].shape[1:3]) == [1, 1]


def silu_products(model: Any) -> Iterator[str]:
    """Names of the outputs of products ``x * sigmoid(x)``, but not of norms and attention."""
    for graph in model.subgraphs:
        gates = {}  # from the output of a sigmoid to its input
        for name, operator in named_operators(model, graph):
            if name == 'LOGISTIC':
                gates[operator.outputs[0]] = operator.inputs[0]
            elif name == 'MUL':
                one, other = operator.inputs
                if gates.get(one) == other or gates.get(other) == one:
                    yield graph.tensors[operator.outputs[0]].name.decode()


def weighted(model: Any) -> Iterator[tuple[str, Any, Any, Any, Any]]:
    """Operator, input, weight, bias and output of every layer with a constant weight and a bias."""
    for graph in model.subgraphs:
        for name, operator in named_operators(model, graph):
            if name in WEIGHTED and len(operator.inputs) > 2 and operator.inputs[2] >= 0:
                source, weight, bias = (graph.tensors[index] for index in operator.inputs[:3])
                if model.buffers[weight.buffer].data is not None:
                    yield name, source, weight, bias, graph.tensors[operator.outputs[0]]


def lift_dead_channels(model: Any, ranges: dict[str, Any]) -> None:
    """Enlarge weights of output channels that are too small for their bias, in place.

    The scale of a bias is the weights' times the input's. For a channel without
    weights, which training may produce, it would be so small that the bias exceeds 32 bits. One of
    its weights is set to the smallest value that avoids this, far below the rounding of the input.
    """
    for name, source, weight, bias, _ in weighted(model):
        found = ranges.get(source.name.decode())
        if not found:
            continue
        low, high = (float(np.min(found['min'])), float(np.max(found['max'])))
        scale = max(max(high, 0) - min(low, 0), 1e-6) / 255
        values = np.frombuffer(model.buffers[weight.buffer].data, np.float32)
        values = values.reshape(weight.shape).copy()
        channels = np.moveaxis(values, -1 if name == 'DEPTHWISE_CONV_2D' else 0, 0)
        offsets = np.frombuffer(model.buffers[bias.buffer].data, np.float32)
        smallest = np.abs(offsets) * 127 / (scale * MAX_BIAS)
        largest = np.abs(channels).reshape(len(channels), -1).max(axis=1)
        for index in np.flatnonzero(largest < smallest):
            channels[index].flat[0] = smallest[index]
        model.buffers[weight.buffer].data = np.frombuffer(values.tobytes(), np.uint8)


def restore_outputs(model: Any) -> None:
    """Return the float tensors of the signature, in place.

    The quantizer replaces outputs that another int8 operator reads by their int8 version.
    """
    for signature in model.signatureDefs:
        outputs = [output.tensorIndex for output in signature.outputs]
        model.subgraphs[signature.subgraphIndex].outputs = outputs
