"""A small file for a page."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from mmeffvit.deploy.runtime.metadata import NO_RESIZE


def red_file(
    out: Path,
    shape: tuple[Any, ...] = (1, 3, 'h', 'w'),
    task: str = 'semantic segmentation',
    **how: Any,
) -> Path:
    """A file whose label map is the red channel."""
    images = onnx.helper.make_tensor_value_info('images', onnx.TensorProto.FLOAT, shape)
    label_map = onnx.helper.make_tensor_value_info('label_map', onnx.TensorProto.INT64, None)
    nodes = [
        onnx.helper.make_node('Gather', ['images', 'red'], ['channel'], axis=1),
        onnx.helper.make_node('Cast', ['channel'], ['label_map'], to=onnx.TensorProto.INT64),
    ]
    red = onnx.numpy_helper.from_array(np.int64(0), 'red')
    graph = onnx.helper.make_graph(nodes, 'red', [images], [label_map], [red])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid('', 20)])
    model.ir_version = 9
    metadata = dict(task=task, resize=json.dumps({**NO_RESIZE, **how}))
    onnx.helper.set_model_props(model, metadata)
    onnx.save(model, out)
    return out
