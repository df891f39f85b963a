"""JPEGs decoded at a fraction of their size are what decoding in full and shrinking gives."""

from copy import deepcopy
from pathlib import Path

import cv2
import numpy as np
import pytest
from mmengine.registry import init_default_scope
from PIL import Image

from mmeffvit.data.transforms import LoadReduced
from mmeffvit.registry import TRANSFORMS
from mmeffvit.train.folder.pipelines import with_reduced_loading

SIZE = (300, 404)  # height and width
POLYGON = [40.0, 30.0, 200.0, 50.0, 180.0, 240.0, 60.0, 200.0]
ANNOTATIONS = dict(type='mmdet.LoadAnnotations', with_bbox=True, with_mask=True)
RESIZE = dict(type='mmdet.Resize', scale=(96, 72), keep_ratio=True)
ROTATED = 6  # EXIF's number
LABELS = np.random.default_rng(1).integers(0, 150, SIZE).astype(np.uint8)


@pytest.fixture(scope='module')
def picture() -> np.ndarray:
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (12, 16, 3)).astype(np.uint8)
    return cv2.resize(noise, SIZE[::-1], interpolation=cv2.INTER_CUBIC)


def sample(path: Path, **more: object) -> dict:
    instance = dict(bbox=[40.0, 30.0, 200.0, 240.0], bbox_label=2, ignore_flag=0, mask=[POLYGON])
    return dict(img_path=str(path), instances=[{**instance, **more}], seg_fields=[])


def load(annotations: dict, results: dict) -> dict:
    """Decode in full, as mmdet does."""
    init_default_scope('mmdet')
    for settings in (dict(type='mmcv.LoadImageFromFile'), annotations):
        results = TRANSFORMS.build(settings)(results)
    return results


def reduced(results: dict, annotations: dict = ANNOTATIONS, scale: tuple = (96, 72)) -> dict:
    init_default_scope('mmdet')
    return LoadReduced(annotations=annotations, scale=scale)(results)


@pytest.mark.parametrize('exif', [1, ROTATED])
def test_images_and_annotations_are_those_of_the_shrunk_file(picture, exif, tmp_path):
    path = tmp_path / 'a.jpg'
    tags = Image.Exif()
    tags[0x0112] = exif
    Image.fromarray(picture[..., ::-1]).save(path, quality=95, exif=tags)
    full, ours = (run(sample(path)) for run in (lambda s: load(ANNOTATIONS, s), reduced))
    height, width = full['ori_shape']
    assert ours['ori_shape'] == (height, width)
    assert ours['img'].shape[:2] == ours['img_shape'] == (height // 4, width // 4)
    assert ours['scale_factor'] == (1 / 4, 1 / 4)
    shrunk = cv2.resize(full['img'], ours['img'].shape[1::-1], interpolation=cv2.INTER_AREA)
    difference = np.abs(ours['img'].astype(float) - shrunk)
    assert difference.mean() < 2  # of 255: the decoder's average of 4 x 4 pixels
    resized = [TRANSFORMS.build(RESIZE)(each) for each in (full, ours)]
    assert resized[0]['img_shape'] == resized[1]['img_shape']
    boxes = [each['gt_bboxes'].tensor.numpy() for each in resized]
    np.testing.assert_allclose(*boxes, rtol=1e-5)
    masks = [each['gt_masks'].masks[0].astype(bool) for each in resized]
    assert (masks[0] & masks[1]).sum() / (masks[0] | masks[1]).sum() > 0.95  # of coarse outlines
    assert resized[0]['gt_bboxes_labels'] == resized[1]['gt_bboxes_labels']


def test_label_maps_are_shrunk_with_the_image(picture, tmp_path):
    path, labels = tmp_path / 'a.jpg', tmp_path / 'a.png'
    cv2.imwrite(str(path), picture)
    cv2.imwrite(str(labels), LABELS)
    settings = dict(type='mmseg.LoadAnnotations')
    results = dict(img_path=str(path), seg_map_path=str(labels), seg_fields=[])
    results['reduce_zero_label'] = False
    ours = reduced(results, settings)
    assert ours['gt_seg_map'].shape == ours['img_shape'] == (75, 101)
    assert ours['gt_seg_map'].tolist() == LABELS[2::4, 2::4].tolist()


@pytest.mark.parametrize('case', ['small', 'odd', 'PNG', 'run lengths', 'keypoints'])
def test_others_are_decoded_in_full(picture, case, tmp_path):
    path = tmp_path / ('a.png' if case == 'PNG' else 'a.jpg')
    cv2.imwrite(str(path), picture[1:] if case == 'odd' else picture)
    more = {
        'run lengths': dict(mask=dict(size=list(SIZE), counts=[0, 10, SIZE[0] * SIZE[1] - 10])),
        'keypoints': dict(keypoints=[1.0, 2.0, 2.0]),
    }.get(case, {})
    scale = (210, 160) if case == 'small' else (96, 72)
    expected = load(ANNOTATIONS, deepcopy(sample(path, **more)))
    found = reduced(sample(path, **more), scale=scale)
    np.testing.assert_array_equal(found['img'], expected['img'])
    np.testing.assert_array_equal(found['gt_masks'].masks, expected['gt_masks'].masks)
    assert found['gt_bboxes'].tensor.tolist() == expected['gt_bboxes'].tensor.tolist()


@pytest.mark.parametrize(
    ('shrinks', 'by'), [(1.9, 1), (2.0, 2), (3.92, 2), (4.0, 4), (8.08, 8), (8.04, 4), (96, 8)]
)
def test_no_image_becomes_smaller_than_it_is_needed(shrinks, by):
    transform = LoadReduced(annotations=ANNOTATIONS, scale=(100, 50))
    assert transform.reduction((round(100 * shrinks), 48)) == by
    assert transform.reduction((48, round(100 * shrinks))) == by


def test_a_wrong_scale_is_named():
    with pytest.raises(ValueError, match=r'scale is \(640, 0\)'):
        LoadReduced(annotations=ANNOTATIONS, scale=(640, 0))


LOAD = [dict(type='LoadImageFromFile'), dict(type='LoadAnnotations', with_bbox=True)]


@pytest.mark.parametrize(
    ('resize', 'scale'),
    [
        (dict(type='CachedMosaic', img_scale=(640, 640)), (640, 640)),
        (dict(type='Resize', scale=(1333, 800), keep_ratio=True), (1333, 800)),
        (dict(type='Resize', scale=(320, 320)), None),  # stretches
    ],
)
def test_a_pipeline_is_changed_where_its_first_transform_says_the_size(resize, scale):
    found = with_reduced_loading([*LOAD, resize])
    load = dict(type='mmeffvit.LoadReduced', annotations=LOAD[1], scale=scale)
    assert found == ([load, resize] if scale else [*LOAD, resize])
