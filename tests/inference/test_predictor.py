"""Predictions in Python: inputs, results and drawings."""

import sys

import cv2
import numpy as np
import pytest

import mmeffvit
from mmeffvit.errors import UserError
from mmeffvit.inference.results import Detections, LabelMap
from tests.inference.untrained import save_untrained
from tests.learning.cases import CASES
from tests.released import files


def make(head: str, tmp_path, request) -> mmeffvit.Predictor:
    case = next(case for case in CASES if case.head == head)
    data = request.getfixturevalue(case.data)
    model = save_untrained(case, tmp_path / 'model', data)
    return mmeffvit.Predictor(model.config, model.checkpoint, device='cpu')


@pytest.fixture
def detector(tmp_path, request):
    return make('Mask R-CNN', tmp_path, request)


@pytest.fixture
def segmentor(tmp_path, request):
    return make('Semantic FPN', tmp_path, request)


@pytest.fixture
def photos(tmp_path):
    (tmp_path / 'photos').mkdir()
    return [files.save_picture(tmp_path / 'photos' / f'{n}.png', 90, 70) for n in 'ab']


def test_a_detector_gives_boxes_of_the_photograph_and_masks(detector, photos, tmp_path):
    found = detector(str(photos[0]), out_dir=tmp_path / 'out')
    assert isinstance(found, Detections)
    assert (found.path.name, found.frame) == ('a.png', None)
    assert found.boxes.shape == (len(found), 4)
    assert 0 < len(found) <= 5
    assert found.boxes.max() > 64  # in pixels of the image, not of the network's input
    assert (found.boxes <= [90, 70, 90, 70]).all()
    assert (np.diff(found.scores) <= 0).all()
    assert found.masks.shape == (len(found), 70, 90)
    assert found.masks.dtype == bool
    assert found.names == [found.classes[label] for label in found.labels]
    assert cv2.imread(str(tmp_path / 'out' / 'a.png')).shape == (70, 90, 3)
    few = detector(photos[0], score_thr=float(found.scores[0]))
    assert len(few) == 1


def test_an_array_gives_the_results_of_its_file(detector, photos):
    of_file, of_array = detector(photos[0]), detector(cv2.imread(str(photos[0])))
    assert of_array.path is None
    assert np.array_equal(of_file.boxes, of_array.boxes)
    assert np.array_equal(of_file.masks, of_array.masks)


def test_several_inputs_give_a_list_in_the_same_order(detector, photos):
    both = detector(photos[::-1], batch_size=2)
    assert [found.path.name for found in both] == ['b.png', 'a.png']
    assert [found.path.name for found in detector(photos[0].parent)] == ['a.png', 'b.png']
    assert len(detector([cv2.imread(str(photos[0]))] * 3)) == 3


def test_a_segmentor_gives_a_class_for_every_pixel(segmentor, photos):
    found = segmentor(photos[0])
    assert isinstance(found, LabelMap)
    assert found.labels.shape == (70, 90)
    assert found.names == [found.classes[label] for label in sorted(set(found.labels.flat))]


@pytest.mark.parametrize(
    ('inputs', 'options', 'message'),
    [
        ('gone.png', {}, 'no such file or folder|no image or video'),
        (np.zeros((4, 4), np.uint8), {}, r'of shape \(4, 4\); give'),
        (np.zeros((4, 4, 3)), {}, r'an image is float64'),
        (np.zeros((4, 4, 3), np.uint8), dict(out_dir='out'), 'give only arrays, and no out_dir'),
        ('a.png', dict(score_thr=2), 'give a score from 0 to 1'),
    ],
)
def test_bad_inputs_are_reported(detector, inputs, options, message):
    with pytest.raises(UserError, match=message):
        detector(inputs, **options)


def test_a_photograph_that_cannot_be_read_is_an_error(detector, photos, tmp_path):
    photos[1].write_bytes(photos[1].read_bytes()[:90])
    with pytest.raises(UserError, match=r'b\.png'):
        detector(photos)


def test_detections_convert_to_supervision(detector, photos):
    supervision = pytest.importorskip('supervision', reason='supervision is not installed')
    found = detector(photos[0])
    converted = found.to_supervision()
    assert isinstance(converted, supervision.Detections)
    assert np.array_equal(converted.xyxy, found.boxes)
    assert np.array_equal(converted.mask, found.masks)
    assert converted.data['class_name'].tolist() == found.names


def test_a_label_map_converts_to_a_mask_for_every_class(segmentor, photos):
    supervision = pytest.importorskip('supervision', reason='supervision is not installed')
    found = segmentor(photos[0])
    regions = found.to_supervision()
    assert isinstance(regions, supervision.Detections)
    assert regions.mask.sum() == found.labels.size
    assert regions.data['class_name'].tolist() == found.names


def test_a_missing_supervision_is_reported_with_its_install_command(detector, photos, monkeypatch):
    monkeypatch.setitem(sys.modules, 'supervision', None)
    with pytest.raises(UserError, match='pip install supervision'):
        detector(photos[0]).to_supervision()
