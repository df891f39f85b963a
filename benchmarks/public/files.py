"""MACs and latency of exported ONNX files, on one thread and in turns."""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort

from ..timing import Budget, Samples, interleave

MULTIPLYING = ('Conv', 'ConvTranspose', 'MatMul', 'Gemm')


def options(level: ort.GraphOptimizationLevel = ort.GraphOptimizationLevel.ORT_ENABLE_ALL):
    chosen = ort.SessionOptions()
    chosen.intra_op_num_threads = chosen.inter_op_num_threads = 1
    chosen.graph_optimization_level = level
    return chosen


def image_for(session: ort.InferenceSession, size: tuple[int, int]) -> dict[str, np.ndarray]:
    """Noise as the input of a file.

    Args:
        session: The opened file.
        size: Height and width, where the file leaves them open.
    """
    first = session.get_inputs()[0]
    shape = [
        known if isinstance(known, int) else wanted
        for known, wanted in zip(first.shape, (1, 3, *size), strict=True)
    ]
    noise = np.random.default_rng(0).integers(0, 256, shape)
    scale = 1 if first.type == 'tensor(uint8)' else 255
    return {first.name: (noise / scale).astype(np.uint8 if scale == 1 else np.float32)}


def latency(files: Mapping[str, tuple[Path, tuple[int, int]]], seconds: float) -> Samples:
    """Seconds of each file, interleaved.

    Args:
        files: File and image size (height, width) by name.
        seconds: Time after which no further round starts.
    """
    calls = {}
    for name, (path, size) in files.items():
        session = ort.InferenceSession(str(path), options(), providers=['CPUExecutionProvider'])
        inputs = image_for(session, size)
        calls[name] = lambda session=session, inputs=inputs: session.run(None, inputs)
    return interleave(calls, Budget(seconds))


def macs(path: Path, size: tuple[int, int]) -> int:
    """Multiply-accumulates of the convolutions and products of a float file, from one run of it."""
    model = onnx.load(str(path))
    nodes = [node for node in model.graph.node if node.op_type in MULTIPLYING]
    wanted = {name for node in nodes for name in (node.output[0], node.input[0], node.input[1])}
    weights = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    outputs = {output.name for output in model.graph.output}
    produced = {name for node in model.graph.node for name in node.output}
    for name in sorted((wanted & produced) - outputs):
        model.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
    plain = options(ort.GraphOptimizationLevel.ORT_DISABLE_ALL)
    session = ort.InferenceSession(
        model.SerializeToString(), plain, providers=['CPUExecutionProvider']
    )
    inputs = image_for(session, size)
    names = [output.name for output in session.get_outputs()]
    shapes = {
        name: np.shape(value) for name, value in zip(names, session.run(names, inputs), strict=True)
    }
    shapes |= weights | {name: value.shape for name, value in inputs.items()}
    return sum(macs_of(node, shapes) for node in nodes)


def macs_of(node: onnx.NodeProto, shapes: Mapping[str, tuple[int, ...]]) -> int:
    first, second, out = (shapes[name] for name in (node.input[0], node.input[1], node.output[0]))
    if node.op_type == 'Conv':
        return math.prod(out) * math.prod(second[1:])
    if node.op_type == 'ConvTranspose':
        return math.prod(first) * math.prod(second[1:])
    if node.op_type == 'Gemm':
        transposed = any(a.name == 'transA' and a.i for a in node.attribute)
        return math.prod(out) * first[0 if transposed else -1]
    return math.prod(out) * first[-1]
