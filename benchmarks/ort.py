"""ONNX Runtime on one CPU thread."""

import json
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper
from torch import Tensor, nn

from mmeffvit.deploy.formats.onnx.open import open_onnx
from mmeffvit.deploy.formats.onnx.write import OPSET, export_backbone
from mmeffvit.deploy.graphs.base import Preprocessing
from mmeffvit.models import Backbone
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
    session, inputs = open_onnx(model, threads=1), x.numpy()
    return lambda: [torch.from_numpy(output) for output in session.compute(inputs).values()]


def operator_times(path: Path, x: Tensor, runs: int) -> tuple[float, dict[str, float]]:
    """Median seconds of a run while its operators are timed, and mean seconds by kind of operator.

    They are those of ONNX Runtime's own profiler, the slowest first.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.enable_profiling = 1, True
    with tempfile.TemporaryDirectory() as folder:
        options.profile_file_prefix = str(Path(folder, 'trace'))
        session = onnxruntime.InferenceSession(path, options, providers=['CPUExecutionProvider'])
        for _ in range(runs):
            session.run(None, {session.get_inputs()[0].name: x.numpy()})
        events = json.loads(Path(session.end_profiling()).read_text())
    whole = statistics.median(e['dur'] for e in events if e['name'] == 'model_run')
    kinds: dict[str, float] = defaultdict(float)
    for event in events:
        if event['cat'] == 'Node' and event['name'].endswith('_kernel_time'):
            kinds[event['args']['op_name']] += event['dur'] / 1e6 / runs
    return whole / 1e6, dict(sorted(kinds.items(), key=lambda pair: -pair[1]))


def matmul(rows: int, inner: int, columns: int) -> Callable[[], object]:
    """A function that multiplies (rows, inner) by a constant (inner, columns)."""
    return _operator('MatMul', (rows, inner), (inner, columns), (rows, columns))


def conv(channels: int, out_channels: int, side: int, kernel: int, groups: int = 1) -> Callable:
    """A function that runs a convolution on a square map, with padding that keeps its size."""
    weight = (out_channels, channels // groups, kernel, kernel)
    options = dict(group=groups, pads=[kernel // 2] * 4, kernel_shape=[kernel] * 2)
    size = (side, side)
    return _operator('Conv', (1, channels, *size), weight, (1, out_channels, *size), **options)


def _operator(
    kind: str, x: Sequence[int], weight: Sequence[int], y: Sequence[int], **options: object
) -> Callable[[], object]:
    """A function that runs an operator with constant weights; arguments are shapes."""
    rng = np.random.default_rng(0)
    constant = onnx.numpy_helper.from_array(rng.standard_normal(weight, np.float32), 'w')
    graph = helper.make_graph(
        [helper.make_node(kind, ['x', 'w'], ['y'], **options)],
        kind,
        [helper.make_tensor_value_info('x', TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info('y', TensorProto.FLOAT, y)],
        [constant],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', OPSET)])
    model.ir_version = 10
    inputs = torch.from_numpy(rng.standard_normal(x, np.float32))
    return runner(model.SerializeToString(), inputs)
