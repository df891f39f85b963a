"""ONNX Runtime on one CPU thread."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper
from torch import Tensor, nn

from mmeffvit.backbones import Backbone
from mmeffvit.deploy.graphs.base import Preprocessing
from mmeffvit.deploy.onnx.export import OPSET, export_backbone
from mmeffvit.utils.onnx import open_session
from mmeffvit.utils.quiet import quiet


def export(model: nn.Module, shape: tuple[int, ...], path: Path) -> Path:
    """Export a model to ONNX with torch's exporter, for a fixed input shape.

    Args:
        model: The model, in eval mode; returns maps.
        shape: Shape of the input, (B, 3, H, W).
        path: The file to write.
    """
    with torch.no_grad(), quiet():
        program = torch.onnx.export(
            model.eval(), (torch.zeros(shape),), dynamo=True, opset_version=OPSET
        )
    program.save(path)
    return path


def export_ours(backbone: Backbone, size: tuple[int, int], path: Path) -> Path:
    """Export a backbone of ours, fused, for one image of a fixed size.

    Like timm's, it takes normalized images: mean and std are not part of the file.
    """
    return export_backbone(
        backbone, path, size, batch=1, opset=OPSET, preprocessing=Preprocessing()
    )


def runner(model: Path | bytes, x: Tensor) -> Callable[[], list[Tensor]]:
    """A function that runs a file, or its bytes, on ``x`` and returns its outputs."""
    session = open_session(model, threads=1)
    (name,) = (i.name for i in session.get_inputs())
    feed = {name: x.numpy()}
    return lambda: [torch.from_numpy(output) for output in session.run(None, feed)]


def matmul(rows: int, inner: int, columns: int) -> Callable[[], object]:
    """A function that multiplies (rows, inner) by a constant (inner, columns)."""
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((inner, columns), np.float32)
    graph = helper.make_graph(
        [helper.make_node('MatMul', ['x', 'w'], ['y'])],
        'matmul',
        [helper.make_tensor_value_info('x', TensorProto.FLOAT, [rows, inner])],
        [helper.make_tensor_value_info('y', TensorProto.FLOAT, [rows, columns])],
        [onnx.numpy_helper.from_array(weight, 'w')],
    )
    return _session_of(graph, torch.from_numpy(rng.standard_normal((rows, inner), np.float32)))


def conv(channels: int, out_channels: int, side: int, kernel: int, groups: int = 1) -> Callable:
    """A function that runs a convolution on a square map, with padding that keeps its size."""
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((out_channels, channels // groups, kernel, kernel), np.float32)
    node = helper.make_node(
        'Conv', ['x', 'w'], ['y'], group=groups, pads=[kernel // 2] * 4, kernel_shape=[kernel] * 2
    )
    graph = helper.make_graph(
        [node],
        'conv',
        [helper.make_tensor_value_info('x', TensorProto.FLOAT, [1, channels, side, side])],
        [helper.make_tensor_value_info('y', TensorProto.FLOAT, [1, out_channels, side, side])],
        [onnx.numpy_helper.from_array(weight, 'w')],
    )
    x = rng.standard_normal((1, channels, side, side), np.float32)
    return _session_of(graph, torch.from_numpy(x))


def _session_of(graph: onnx.GraphProto, x: Tensor) -> Callable[[], object]:
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', OPSET)])
    model.ir_version = 10
    return runner(model.SerializeToString(), x)
