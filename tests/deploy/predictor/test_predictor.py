"""The predictor, the command and the documented example, as a user has them."""

import re
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from mmengine.config import Config

from mmeffvit.deploy import OnnxPredictor
from mmeffvit.deploy.onnx.metadata import resize_of
from mmeffvit.deploy.predictor.resizing import resize
from mmeffvit.errors import UserError
from tests.conftest import ROOT, run_python
from tests.deploy import models

DETECTOR, SEGMENTOR = 'retinanet_swiftformer_l1', 'segformer_swiftformer_xs_ade20k'


@pytest.fixture(scope='module')
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """72 x 96 pixels of smooth noise."""
    coarse = np.random.default_rng(0).integers(0, 256, (9, 12, 3), dtype=np.uint8)
    path = tmp_path_factory.mktemp('picture') / 'noise.png'
    cv2.imwrite(str(path), cv2.resize(coarse, (96, 72)))
    return path


def test_the_documented_example_finds_objects_without_mmeffvit(picture, tmp_path):
    text = (ROOT / 'docs' / 'export.md').read_text()
    (example,) = [code for code in re.findall(r'```python\n(.*?)```', text, re.S) if 'PIL' in code]
    imported = re.findall(r'^(?:import|from) (\w+)', example, re.M)
    assert set(imported) <= {'json', 'sys', 'numpy', 'onnxruntime', 'PIL'}
    script = tmp_path / 'example.py'
    script.write_text(example)
    shown = run_python(script, models.file_for_any_size(DETECTOR), picture)
    assert shown.returncode == 0, shown.stdout
    assert re.search(r'^[a-e] [01]\.\d+ \[', shown.stdout, re.M), shown.stdout


@pytest.fixture(scope='module')
def predictors() -> dict[str, OnnxPredictor]:
    leaves = (DETECTOR, SEGMENTOR)
    return {leaf: OnnxPredictor(models.file_for_any_size(leaf), threads=1) for leaf in leaves}


def test_boxes_are_in_pixels_of_the_picture(predictors, picture, tmp_path):
    from mmdet.structures import DetDataSample

    found = predictors[DETECTOR](picture, out_dir=tmp_path, pred_score_thr=0.1, return_vis=True)
    (prediction,) = found['predictions']
    image = cv2.imread(str(picture))
    size = (800, 1067)  # as (1333, 800) does to 72 x 96
    resized = cv2.resize(image, size[::-1])
    factors = (size[1] / 96, size[0] / 72)
    meta = dict(ori_shape=image.shape[:2], img_shape=size, scale_factor=factors)
    inputs = torch.from_numpy(resized.transpose(2, 0, 1).copy())
    model = models.tiny(DETECTOR)
    with torch.no_grad():
        (expected,) = model.test_step(
            dict(inputs=[inputs], data_samples=[DetDataSample(metainfo=meta)])
        )
    expected = expected.pred_instances
    assert len(prediction['scores']) == len(expected) > 0
    np.testing.assert_allclose(prediction['scores'], expected.scores, atol=1e-4)
    # objects of the same score may come in another order
    boxes = np.asarray(prediction['bboxes'])[:, None] - expected.bboxes.numpy()
    nearest = np.abs(boxes).max(axis=2)
    assert max(nearest.min(axis=0).max(), nearest.min(axis=1).max()) < 0.05
    drawn = cv2.imread(str(tmp_path / 'vis' / 'noise.jpg'))
    assert drawn.shape == image.shape
    (shown,) = found['visualization']
    assert np.abs(shown[..., ::-1].astype(int) - image).max() > 50  # something was drawn


def test_a_label_map_has_the_size_of_the_picture_and_folders_and_arrays_do(
    predictors, picture, tmp_path
):
    predictor = predictors[SEGMENTOR]
    image = cv2.imread(str(picture))
    from_folder = predictor(picture.parent, batch_size=2)['predictions']
    from_arrays = predictor([image, image[:, ::-1].copy()])['predictions']
    assert [p['label_map'].shape for p in (*from_folder, *from_arrays)] == [(72, 96)] * 3
    assert np.array_equal(from_folder[0]['label_map'], from_arrays[0]['label_map'])
    assert not np.array_equal(from_arrays[0]['label_map'], from_arrays[1]['label_map'])
    assert predictor.draw(image, from_folder[0]).shape == image.shape


def test_what_cannot_be_predicted_on_is_said(predictors, tmp_path):
    with pytest.raises(UserError, match='does not exist'):
        OnnxPredictor(tmp_path / 'none.onnx')
    with pytest.raises(UserError, match='uint8'):
        predictors[DETECTOR](np.zeros((10, 10), np.uint8))
    (tmp_path / 'broken.jpg').write_bytes(b'no image')
    with pytest.raises(UserError, match=r'broken\.jpg'):
        predictors[DETECTOR](tmp_path / 'broken.jpg')


@pytest.mark.parametrize(
    'leaf',
    ['retinanet_swiftformer_l1', 'ssdlite_mobilevitv2_050', 'rtmdet_swiftformer_xs',
     'pspnet_mobilevitv2_050_ade20k', 'segformer_swiftformer_xs_ade20k'],
)  # fmt: skip
@pytest.mark.parametrize('shape', [(427, 640), (500, 333)])
def test_images_are_resized_as_the_pipeline_of_the_config_does(leaf, shape):
    from mmengine.dataset import Compose
    from mmengine.registry import TRANSFORMS, init_default_scope

    config: Config = models.load(leaf)
    init_default_scope(config.default_scope)
    steps = [
        step
        for step in config.test_dataloader.dataset.pipeline
        if not step['type'].startswith(('Load', 'Pack'))
    ]
    image = np.random.default_rng(0).integers(0, 256, (*shape, 3), dtype=np.uint8)
    results = Compose([TRANSFORMS.build(step) for step in steps])(
        dict(img=image, img_shape=shape, ori_shape=shape)
    )
    ours = resize(image, resize_of(config))
    assert np.array_equal(ours.image, results['img'])
    if 'pad' not in str(steps).lower():
        assert ours.content == results['img_shape'][:2]


def test_the_predictor_needs_no_host():
    hosts = {'mmdet', 'mmseg', 'mmcv'}
    code = (
        'import sys\nfrom mmeffvit.deploy import OnnxPredictor\n'
        f'print(sorted({hosts} & set(sys.modules)))'
    )
    assert run_python('-c', code).stdout.strip().endswith('[]')
