"""The predictor, the command and the documented example, as users run them."""

import json
import re
import shutil
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp

import cv2
import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F

from mmeffvit import ExportedPredictor
from mmeffvit.deploy.agreement import OBJECTS, agreement
from mmeffvit.deploy.formats.openvino.write import to_openvino
from mmeffvit.deploy.graphs import make_graph
from mmeffvit.deploy.graphs.metadata import config_metadata
from mmeffvit.deploy.runtime.metadata import NO_RESIZE
from mmeffvit.deploy.runtime.predictor import resize_nearest
from mmeffvit.deploy.write import write
from mmeffvit.inference.predictor import Predictor
from mmeffvit.inference.results import Detections
from tests.conftest import ROOT, output_of, run_python, succeeded
from tests.deploy import models
from tests.variants import sampled

DETECTOR, SEGMENTOR = 'retinanet_swiftformer_l1', 'segformer_swiftformer_xs_ade20k'
LABEL_MAPS = (SEGMENTOR, '--label-map-dir', 'maps')


def test_the_documented_example_finds_objects_without_mmeffvit(picture, tmp_path):
    text = (ROOT / 'docs' / 'export.md').read_text()
    (example,) = [code for code in re.findall(r'```python\n(.*?)```', text, re.S) if 'PIL' in code]
    imported = re.findall(r'^(?:import|from) (\w+)', example, re.M)
    assert set(imported) <= {'json', 'sys', 'numpy', 'onnxruntime', 'PIL'}
    script = tmp_path / 'example.py'
    script.write_text(example)
    printed = succeeded(run_python(script, models.file_for_any_size(DETECTOR), picture))
    assert re.search(r'^[a-e] [01]\.\d+ \[', printed, re.M), printed


@pytest.fixture(scope='module')
def predictors() -> dict[str, ExportedPredictor]:
    return {name: ExportedPredictor(path, threads=1) for name, path in files().items()}


@pytest.mark.parametrize('size', [(30, 47), (128, 192), (7, 5), (64, 96), (1, 1)])
def test_labels_are_resized_by_the_centers_of_pixels(size):
    labels = np.random.default_rng(0).integers(0, 9, (64, 96))
    wanted = F.interpolate(torch.tensor(labels[None, None]).float(), size, mode='nearest-exact')
    assert np.array_equal(resize_nearest(labels, size), wanted[0, 0].numpy())


def test_boxes_end_at_the_image_and_empty_ones_are_left_out():
    boxes = np.array([[-3, 2, 9, 40], [5, 31, 9, 40], [60, 1, 70, 9]], np.float32)
    found = Detections(None, None, boxes, np.ones(3), np.arange(3), ('a', 'b', 'c')).within(
        (30, 50)
    )
    assert found.boxes.tolist() == [[0, 2, 9, 30]]
    assert found.labels.tolist() == [0]


def files() -> dict[str, Path]:
    """A detector for images of any size, and a segmentor for those of one size."""
    detector, segmentor = models.file_for_any_size(DETECTOR), models.file_for_one_size(SEGMENTOR)
    return {DETECTOR: detector, SEGMENTOR: segmentor}


def test_boxes_are_in_pixels_of_the_picture(predictors, picture, tmp_path):
    found = predictors[DETECTOR](picture, out_dir=tmp_path)
    image = cv2.imread(str(picture))
    expected = Predictor(*models.save_run(DETECTOR, tmp_path), device='cpu')(picture)
    assert isinstance(found, Detections)
    assert (found.path, found.frame) == (picture, None)
    assert len(found) == len(expected) > 0
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-4)
    # objects with equal scores may be in another order
    boxes = found.boxes[:, None] - expected.boxes
    nearest = np.abs(boxes).max(axis=2)
    assert max(nearest.min(axis=0).max(), nearest.min(axis=1).max()) < 0.05
    assert found.names == ['abcde'[label] for label in found.labels]
    drawn = cv2.imread(str(tmp_path / 'noise.png'))
    assert drawn.shape == image.shape
    assert np.array_equal(drawn, predictors[DETECTOR].draw(image, found))
    assert np.abs(drawn.astype(int) - image).max() > 50  # something was drawn
    few = predictors[DETECTOR](image, score_thr=float(found.scores[0]))
    assert 1 <= len(few) < len(found)


@pytest.mark.parametrize(
    ('name', 'option', 'out'),
    sampled([(DETECTOR, '--out', 'found.json'), LABEL_MAPS], [LABEL_MAPS]),
)
def test_the_command_predicts_from_a_file_of_openvino_as_from_onnx(
    name, option, out, picture, tmp_path
):
    pytest.importorskip('openvino')
    content = onnx.load(files()[name])
    kept = {entry.key: entry.value for entry in content.metadata_props}
    onnx.helper.set_model_props(content, {**kept, 'resize': json.dumps(NO_RESIZE)})  # small: fast
    source, handle = tmp_path / 'model.onnx', tmp_path / 'model.xml'
    onnx.save(content, source)
    to_openvino(source, handle)
    found = []
    for path in (source, handle):
        results = tmp_path / path.suffix[1:] / out
        drawn = results.parent / 'drawn'
        printed = output_of('predict', path, picture, option, results, '--out-dir', drawn)
        assert printed.startswith('1 image')
        assert (drawn / 'noise.png').is_file()
        if results.suffix == '.json':
            rows = json.loads(results.read_text())
            found.append(sorted(row['score'] for row in rows))
        else:
            found.append(cv2.imread(str(results / 'noise.png'), cv2.IMREAD_UNCHANGED))
    if name == DETECTOR:
        assert found[1] == pytest.approx(found[0], abs=1e-4)
    else:
        assert (found[1] == found[0]).mean() > 0.99  # others tie


INSTALLED = ('numpy', 'cv2', 'opencv_python', 'PIL', 'pillow', 'onnxruntime', 'ncnn')  # and libs
LAST_STEPS = [(name, suffix) for suffix in ('.param', '.tflite') for name in (
    DETECTOR, 'rtmdet_swiftformer_xs', 'ssdlite_mobilevitv2_050', SEGMENTOR)]  # fmt: skip


def test_colors_of_a_checkpoint_may_be_integers_of_numpy():
    model, colors = models.tiny(SEGMENTOR), [tuple(np.array([1, 2, 3]))]
    meta = config_metadata(models.config_of(SEGMENTOR), model, dict(palette=colors))
    assert meta['palette'] == '[[1, 2, 3]]'


@cache
def without_last_steps(name: str, suffix: str) -> Path:
    """The tiny model of a config in a file that leaves NMS or argmax to the predictor."""
    pytest.importorskip('pnnx' if suffix == '.param' else 'litert_torch')
    model = models.tiny(name)
    metadata = config_metadata(models.config_of(name), model, dict(classes=models.CLASSES))
    path = Path(mkdtemp(), f'{name}{suffix}')
    write(make_graph(model), path, models.FIXED, metadata)
    return path


@pytest.mark.parametrize(('name', 'suffix'), sampled(LAST_STEPS, LAST_STEPS[3:5]))
def test_files_without_nms_and_argmax_give_the_objects_and_labels_of_the_model(
    name, suffix, picture
):
    expected, found = (
        ExportedPredictor(path, threads=1)(picture)
        for path in (models.file_for_one_size(name), without_last_steps(name, suffix))
    )
    if name == SEGMENTOR:
        assert (found.labels == expected.labels).mean() > 0.999
    else:
        objects = [{k: getattr(each, k)[None] for k in OBJECTS} for each in (expected, found)]
        values = {each.kind: each for each in agreement(objects[:1], objects[1:], 0.0)}
        assert values['objects'].value == len(expected) > 10
        assert values['matched objects'].value > 0.98
        assert values['largest score difference'].value < 1e-4
        assert abs(len(found) - len(expected)) <= 0.02 * len(expected)


def test_files_run_where_only_numpy_opencv_pillow_and_a_runtime_are_installed(
    predictors, picture, tmp_path
):
    packages = Path(np.__file__).parents[1]
    for path in packages.iterdir():
        if path.name.partition('.')[0].partition('-')[0] in INSTALLED:
            if path.name == 'cv2':  # it looks for itself where a link points to
                shutil.copytree(path, tmp_path / path.name)
            else:
                (tmp_path / path.name).symlink_to(path)
    (tmp_path / 'mmeffvit').symlink_to(ROOT / 'mmeffvit')
    paths = [*files().values()]
    if find_spec('pnnx'):
        paths.append(without_last_steps(SEGMENTOR, '.param'))
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
from mmeffvit.deploy.runtime.predictor import ExportedPredictor
for path in {[*map(str, paths)]!r}:
    found = ExportedPredictor(path, threads=1)({str(picture)!r}, out_dir={str(tmp_path / 'out')!r})
    print(type(found).__name__, int(found.labels.sum()))
for absent in ('torch', 'mmengine', 'mmcv'):
    try:
        __import__(absent)
    except ModuleNotFoundError:
        print(absent)
"""
    # without the environment, and without its site-packages
    result = subprocess.run(
        [sys.executable, '-I', '-S', '-c', code], capture_output=True, text=True, cwd=tmp_path
    )
    assert result.returncode == 0, result.stderr
    expected = [predictors[name](picture) for name in (DETECTOR, SEGMENTOR)]
    assert len(expected[0]) > 0
    expected += [ExportedPredictor(path)(picture) for path in paths[2:]]
    lines = [f'{type(found).__name__} {found.labels.sum()}' for found in expected]
    assert result.stdout.splitlines() == [*lines, 'torch', 'mmengine', 'mmcv']
    assert (tmp_path / 'out' / 'noise.png').is_file()
