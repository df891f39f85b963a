"""Files whose outputs are not objects, a label map or scores in our layout are rejected."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx.helper import make_node

from mmeffvit import ExportedPredictor
from mmeffvit.deploy.runtime.metadata import NO_RESIZE
from mmeffvit.errors import UserError
from tests.conftest import rejected
from tests.deploy.onnx_files import write_onnx

SIZE = (72, 96)  # of the picture
Outputs = dict[str, NDArray]


def constant_file(path: Path, outputs: Outputs, task: str) -> Path:
    """A file that returns the same arrays for every image."""
    nodes = [make_node('Identity', [f'{name}_0'], [name]) for name in outputs]
    values = {f'{name}_0': value for name, value in outputs.items()}
    types = {name: value.dtype for name, value in outputs.items()}
    metadata = dict(task=task, resize=json.dumps(NO_RESIZE), classes='["a", "b", "c"]')
    return write_onnx(path, nodes, types, values, metadata)


def floats(*shape: int, value: float = 0.5) -> NDArray:
    return np.full(shape, value, np.float32)


def integers(*shape: int, value: int = 0) -> NDArray:
    return np.full(shape, value, np.int64)


def objects(**other: NDArray) -> Outputs:
    boxes = floats(1, 3, 4) + np.float32([0, 0, 9, 9])
    return dict(boxes=boxes, scores=floats(1, 3), labels=integers(1, 3)) | other


def text(*shape: int) -> NDArray:
    return np.full(shape, 'x', dtype=object)


TASKS = {'detection': objects(), 'semantic segmentation': dict(label_map=integers(1, *SIZE)),
         'classification': dict(scores=floats(1, 3))}  # fmt: skip
WRONG: dict[str, Any] = {
    'fewer boxes': objects(boxes=floats(1, 2, 4)),
    'fewer scores': objects(scores=floats(1, 2)),
    'fewer labels': objects(labels=integers(1, 2)),
    'boxes of three': objects(boxes=floats(1, 3, 3)),
    'scores of integers': objects(scores=integers(1, 3, value=1)),
    'scores without an end': objects(scores=floats(1, 3, value=np.inf)),
    'labels of floats': objects(labels=floats(1, 3)),
    'no image': {name: value[:0] for name, value in objects().items()},
    'two images': {name: value.repeat(2, axis=0) for name, value in objects().items()},
    'one score': objects(scores=np.array(0.5, np.float32)),
    'masks of one axis': objects(masks=floats(1, 3, 28)),
    'no logits': dict(logits=floats(1, 0, 0, 0)),
    'fewer masks': objects(masks=floats(1, 2, 28, 28)),
    'masks of nothing': objects(masks=floats(1, 3, 0, 0)),
    'a smaller map': dict(label_map=integers(1, 3, 3)),
    'a map of four axes': dict(label_map=integers(1, 1, *SIZE)),
    'a map of floats': dict(label_map=floats(1, *SIZE)),
    'logits of one axis': dict(logits=floats(1, 40)),
    'logits of no number': dict(logits=floats(1, 3, 4, 5, value=np.nan)),
    'labels beyond 32 bits': dict(label_map=integers(1, *SIZE, value=2**40)),
    'negative labels': dict(label_map=integers(1, *SIZE, value=-3)),
    'fewer classes': dict(scores=floats(1, 2)),
    'no classes': dict(scores=floats(1, 0)),
    'classes of no number': dict(scores=floats(1, 3, value=np.nan)),
}


def task_of(outputs: Outputs) -> str:
    kind = next((task for task, known in TASKS.items() if set(known) == set(outputs)), None)
    return kind or 'instance segmentation'


@pytest.mark.parametrize('task', TASKS)
def test_outputs_in_our_layout_are_results(task, picture, tmp_path):
    found = ExportedPredictor(constant_file(tmp_path / 'model.onnx', TASKS[task], task))(picture)
    assert len(found.labels) in (3, SIZE[0])


@pytest.mark.parametrize('name', WRONG)
def test_wrong_counts_shapes_types_and_values_are_named(name, picture, tmp_path):
    path = constant_file(tmp_path / 'model.onnx', WRONG[name], task_of(WRONG[name]))
    with pytest.raises(UserError, match=r'^the file returns ') as caught:
        ExportedPredictor(path)(picture, out_dir=tmp_path / 'out')
    assert '\n' not in str(caught.value)


def test_the_command_ends_with_one_line(picture, tmp_path):
    path = constant_file(tmp_path / 'model.onnx', WRONG['fewer scores'], 'detection')
    message = rejected('predict', path, picture, '--out', tmp_path / 'found.json')
    assert message.startswith('the file returns scores of shape (1, 2) and type float32; it must')
