"""Small ONNX files of a few nodes."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from mmeffvit.deploy.runtime.metadata import NO_RESIZE

ANY_SIZE = (1, 3, 'h', 'w')


def write_onnx(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    outputs: Mapping[str, Any],
    constants: Mapping[str, NDArray],
    metadata: Mapping[str, str] | None = None,
    shape: tuple[Any, ...] = ANY_SIZE,
) -> Path:
    """Nodes from ``images`` of a shape to outputs of these types, with constants by name."""
    images = helper.make_tensor_value_info('images', onnx.TensorProto.FLOAT, shape)
    kinds = {
        name: helper.np_dtype_to_tensor_dtype(np.dtype(kind)) for name, kind in outputs.items()
    }
    found = [helper.make_tensor_value_info(name, kind, None) for name, kind in kinds.items()]
    values = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, 'graph', [images], found, values)
    opset = helper.make_opsetid('', 20)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=9)
    helper.set_model_props(model, metadata or {})
    onnx.save(model, path)
    return path


def red_file(
    out: Path, shape: tuple[Any, ...] = ANY_SIZE, task: str = 'semantic segmentation', **how: Any
) -> Path:
    """A file whose label map is the red channel."""
    nodes = [
        helper.make_node('Gather', ['images', 'red'], ['channel'], axis=1),
        helper.make_node('Cast', ['channel'], ['label_map'], to=onnx.TensorProto.INT64),
    ]
    metadata = dict(task=task, resize=json.dumps({**NO_RESIZE, **how}))
    return write_onnx(out, nodes, {'label_map': 'int64'}, {'red': np.int64(0)}, metadata, shape)
