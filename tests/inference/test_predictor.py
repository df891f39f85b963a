"""Predictions in Python: inputs, results and drawings."""

import sys
from copy import deepcopy

import cv2
import numpy as np
import pytest
import torch
from mmdet.structures import DetDataSample
from mmengine.registry import init_default_scope
from mmengine.structures import InstanceData, PixelData
from PIL import Image

import mmeffvit
from mmeffvit.config.build import build_model, own_model_config
from mmeffvit.config.load import load_config, own_configs
from mmeffvit.errors import UserError
from mmeffvit.inference.inputs import as_bgr
from mmeffvit.inference.model import inference_pipeline
from mmeffvit.inference.results import Detections, LabelMap, make_result
from tests.analysis.small import save_segmentor
from tests.inference.untrained import Untrained, save_untrained
from tests.learning.cases import BY_HEAD
from tests.released import files


@pytest.fixture(scope='module')
def of_detector(shapes, tmp_path_factory) -> Untrained:
    return save_untrained(BY_HEAD['Mask R-CNN'], tmp_path_factory.mktemp('a') / 'detector', shapes)


@pytest.fixture(scope='module')
def detector(of_detector) -> mmeffvit.Predictor:
    return mmeffvit.Predictor(of_detector.config, of_detector.checkpoint, device='cpu')


@pytest.fixture(scope='module')
def segmentor(ade_shapes, tmp_path_factory) -> mmeffvit.Predictor:
    model = save_untrained(
        BY_HEAD['Semantic FPN'], tmp_path_factory.mktemp('a') / 'segmentor', ade_shapes
    )
    return mmeffvit.Predictor(model.config, model.checkpoint, device='cpu')


@pytest.fixture
def photos(tmp_path):
    (tmp_path / 'photos').mkdir()
    return [files.save_picture(tmp_path / 'photos' / f'{n}.png', 90, 70) for n in 'ab']


def test_a_detector_gives_boxes_of_the_image_and_masks(detector, photos, tmp_path):
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


def test_masks_without_boxes_are_objects_and_other_results_are_named():
    masks = torch.zeros(2, 20, 30, dtype=torch.bool)
    masks[0, 5:9, 7:20] = True  # the other one is empty
    boxes = torch.zeros(2, 4)  # as of SOLO
    scores, labels = torch.tensor([0.5, 0.9]), torch.tensor([1, 0])
    found = InstanceData(masks=masks, bboxes=boxes, scores=scores, labels=labels)
    sample = DetDataSample(metainfo=dict(ori_shape=(20, 30)), pred_instances=found)
    assert make_result(sample, ('a', 'b')).boxes.tolist() == [[7, 5, 20, 9]]
    sample = DetDataSample(pred_panoptic_seg=PixelData(sem_seg=torch.zeros(1, 2, 2)))
    with pytest.raises(UserError, match='the model returns pred_panoptic_seg; only'):
        make_result(sample, ('a', 'b'))


def test_an_array_gives_the_results_of_its_file(detector, photos):
    of_file, of_array = detector(photos[0]), detector(cv2.imread(str(photos[0])))
    assert of_array.path is None
    assert np.array_equal(of_file.boxes, of_array.boxes)
    assert np.array_equal(of_file.masks, of_array.masks)


def test_several_inputs_give_a_list_in_the_same_order(detector, photos, tmp_path):
    both = detector(photos[::-1], batch_size=2)
    assert [found.path.name for found in both] == ['b.png', 'a.png']
    assert [found.path.name for found in detector(photos[0].parent)] == ['a.png', 'b.png']
    assert len(detector([cv2.imread(str(photos[0]))] * 3)) == 3
    detector([photos[0].parent, cv2.imread(str(photos[0]))], out_dir=tmp_path / 'out')
    assert sorted(each.name for each in (tmp_path / 'out').iterdir()) == [
        '000001.png', 'a.png', 'b.png',
    ]  # fmt: skip


def test_a_pipeline_may_begin_with_the_class_of_a_loader(detector):
    config = deepcopy(detector.config)
    config.test_dataloader.dataset.pipeline[0].type = type(detector.loader)
    assert isinstance(inference_pipeline(config)[0], type(detector.loader))


def test_a_segmentor_gives_a_class_for_every_pixel(segmentor, photos):
    found = segmentor(photos[0])
    assert isinstance(found, LabelMap)
    assert found.labels.shape == (70, 90)
    assert found.names == [found.classes[label] for label in sorted(set(found.labels.flat))]


def test_pillow_images_gray_and_alpha_are_taken_as_such_files_are(segmentor, tmp_path):
    rng = np.random.default_rng(0)
    gray, color = (rng.integers(0, 255, (40, 50, *c), np.uint8) for c in ((), (4,)))
    for kind, array in (('gray', gray), ('alpha', color)):
        path = tmp_path / f'{kind}.png'
        cv2.imwrite(str(path), array)
        true = segmentor(path).labels
        for image in (array, Image.open(path)):
            assert (segmentor(image).labels == true).all(), kind
        drawn = [segmentor.draw(image, segmentor(path)) for image in (array, Image.open(path))]
        assert np.array_equal(*drawn)
    deep = np.linspace(0, 65535, 40 * 50).reshape(40, 50).astype(np.uint16)
    assert np.abs(as_bgr(Image.fromarray(deep))[..., 0] - np.round(deep / 257)).max() <= 1
    with pytest.raises(UserError, match='has the mode F, 32 bits'):
        as_bgr(Image.fromarray(deep.astype(np.float32)))


def test_results_convert_to_supervision(detector, segmentor, photos):
    supervision = pytest.importorskip('supervision', reason='supervision is not installed')
    found = detector(photos[0])
    converted = found.to_supervision()
    assert isinstance(converted, supervision.Detections)
    assert np.array_equal(converted.xyxy, found.boxes)
    assert np.array_equal(converted.mask, found.masks)
    assert converted.data['class_name'].tolist() == found.names
    found = segmentor(photos[0])  # a mask for every class
    regions = found.to_supervision()
    assert isinstance(regions, supervision.Detections)
    assert regions.mask.sum() == found.labels.size
    assert regions.data['class_name'].tolist() == found.names


def test_a_missing_supervision_is_reported_with_its_install_command(detector, photos, monkeypatch):
    monkeypatch.setitem(sys.modules, 'supervision', None)
    with pytest.raises(UserError, match='pip install supervision'):
        detector(photos[0]).to_supervision()


@pytest.mark.parametrize('handle', ['', 'epoch_1.pth'])
def test_a_run_folder_and_its_checkpoint_need_no_config(handle, of_detector, detector, photos):
    expected = detector(photos[0])
    run = of_detector.config.parent
    found = mmeffvit.Predictor(run / handle, device='cpu')(photos[0])
    assert np.array_equal(found.boxes, expected.boxes)
    assert found.classes == expected.classes
    assert len(found) > 0


def save_run(path, options: dict, text: str | None = None) -> None:
    """A checkpoint of a run of SSDLite, with its config inside."""
    config = load_config(own_configs()['ssdlite_mobilevitv2_050'], options)
    init_default_scope('mmdet')
    state = build_model(own_model_config(config)).state_dict()
    config.work_dir = 'work_dirs/ssdlite_mobilevitv2_050'
    meta = dict(cfg=text or config.pretty_text, dataset_meta=dict(classes=('bolt', 'nut', 'pin')))
    torch.save(dict(meta=meta, state_dict=state), path)


BOLTS = {
    'model.bbox_head.num_classes': 3,
    'model.test_cfg.score_thr': 0.0,
    'test_dataloader.dataset.pipeline.1.scale': (160, 160),
}


def test_a_checkpoint_alone_is_opened_by_the_config_inside(photos, tmp_path):
    save_run(tmp_path / 'best.pth', BOLTS)
    predictor = mmeffvit.Predictor(tmp_path / 'best.pth', device='cpu')
    assert predictor.classes == ('bolt', 'nut', 'pin')
    prepared = predictor.prepare(cv2.imread(str(photos[0])), photos[0])
    assert prepared['inputs'].shape == (3, 160, 160)
    assert set(predictor(photos[0]).names) <= {'bolt', 'nut', 'pin'}


@pytest.mark.parametrize('scale', [(100_000, 100_000), (0, 0), (-1, 320)])
def test_a_checkpoint_cannot_ask_for_images_that_no_memory_holds(scale, tmp_path):
    save_run(tmp_path / 'best.pth', {**BOLTS, 'test_dataloader.dataset.pipeline.1.scale': scale})
    with pytest.raises(UserError, match=r'pipeline\.1\.scale is .* give 1 to 8192'):
        mmeffvit.Predictor(tmp_path / 'best.pth', device='cpu')


@pytest.mark.parametrize(
    'text',
    [
        "import os; os.system('touch PWNED')",
        'model = dict(type=1)',
        "default_scope = 'mmdet'\nmodel = 1",
        'filename = 1',
    ],
)
def test_a_config_inside_a_checkpoint_is_not_run(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_run(tmp_path / 'best.pth', BOLTS, text)
    with pytest.raises(UserError, match=r'best\.pth'):
        mmeffvit.Predictor('best.pth', device='cpu')
    assert [path.name for path in tmp_path.iterdir()] == ['best.pth']


@pytest.mark.parametrize('padding', [None, 32])
def test_images_that_a_segmentor_does_not_pad_have_32_pixels_or_more(
    padding, ade_shapes, tmp_path, photos
):
    config, checkpoint = save_segmentor('mmeffvit.PVTv2', ade_shapes, tmp_path)
    options = {'model.data_preprocessor.test_cfg': padding and dict(size_divisor=padding)}
    predictor = mmeffvit.Predictor(config, checkpoint, device='cpu', cfg_options=options)
    assert len(predictor(photos)) == 2
    narrow = np.zeros((8, 160, 3), np.uint8)
    if padding:
        assert predictor(narrow).labels.shape == (8, 160)
    else:
        with pytest.raises(UserError, match=r'160 x 8 pixels .* the model needs 32 or more'):
            predictor(narrow)
