"""Error analysis: scenes with known curves, and comparisons with COCO's metric and mmdet's tool."""

import contextlib
import io
import json
import math
import pickle
import runpy
from pathlib import Path

import mmdet
import numpy as np
import pytest
import torch
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from pycocotools.mask import encode

from mmeffvit.analysis.coco_errors import (
    CURVES,
    SIZES,
    analyze_errors,
    encode_masks,
    load_detections,
)
from mmeffvit.analysis.coco_results import read_detections, read_ground_truth, select
from mmeffvit.errors import UserError

CATEGORIES = [
    dict(id=3, name='cat', supercategory='animal'),
    dict(id=5, name='dog', supercategory='animal'),
    dict(id=8, name='car', supercategory='vehicle'),
]
CAT, DOG, CAR = (category['id'] for category in CATEGORIES)
LEFT, RIGHT, FAR = [0, 0, 40, 40], [100, 0, 40, 40], [200, 100, 40, 40]


def write_truth(folder: Path, objects: list[dict], categories: list[dict] = CATEGORIES) -> Path:
    number = 1 + max(item['image_id'] for item in objects)
    images = [dict(id=i, file_name=f'{i}.png', width=300, height=200) for i in range(number)]
    annotations = [
        dict(id=i, area=item['bbox'][2] * item['bbox'][3], segmentation=[corners(item['bbox'])])
        | item
        for i, item in enumerate(objects)
    ]
    path = folder / 'truth.json'
    path.write_text(json.dumps(dict(images=images, annotations=annotations, categories=categories)))
    return path


def corners(box: list[float]) -> list[float]:
    x, y, w, h = box
    return [x, y, x + w, y, x + w, y + h, x, y + h]


def thing(category: int, box: list[float], score: float | None = None, image: int = 0) -> dict:
    item = dict(image_id=image, category_id=category, bbox=box)
    return item if score is None else item | dict(score=score, segmentation=[corners(box)])


def areas_of_cat(tmp_path, objects, found, iou_type='bbox', size='all', **options) -> list[float]:
    truth = read_ground_truth(write_truth(tmp_path, objects, **options))
    analysis = analyze_errors(truth, found, iou_type)
    return analysis.areas('cat')[:, SIZES.index(size)].tolist()


SCENE = [thing(CAT, LEFT), thing(DOG, RIGHT), thing(CAR, FAR)]
RIGHT_ONES = [thing(CAT, LEFT, 0.5), thing(DOG, RIGHT, 0.5), thing(CAR, FAR, 0.5)]


@pytest.mark.parametrize('iou_type', ['bbox', 'segm'])
@pytest.mark.parametrize(
    ('wrong', 'expected'),
    [
        pytest.param([], [1] * 7, id='perfect'),
        # a wrong detection before the right one halves the precision until it is ignored
        pytest.param([thing(CAT, RIGHT, 0.9)], [0.5] * 3 + [1] * 4, id='on a similar object'),
        pytest.param([thing(CAT, FAR, 0.9)], [0.5] * 4 + [1] * 3, id='on another object'),
        pytest.param([thing(CAT, [200, 0, 9, 9], 0.9)], [0.5] * 5 + [1] * 2, id='on background'),
        pytest.param([thing(DOG, LEFT, 0.9)], [1] * 7, id='an error of another class'),
    ],
)
def test_false_positives_are_ignored_from_the_curve_of_their_kind_on(
    tmp_path, iou_type, wrong, expected
):
    areas = areas_of_cat(tmp_path, SCENE, RIGHT_ONES + wrong, iou_type)
    assert areas == pytest.approx(expected)


@pytest.mark.parametrize('iou_type', ['bbox', 'segm'])
@pytest.mark.parametrize(
    ('shift', 'expected'),
    [(4, [1] * 7), (10, [0] + [1] * 6), (20, [0, 0] + [1] * 5), (36, [0] * 6 + [1])],
    # IoUs of 0.82, 0.6, 0.33 and 0.05: the last one does not match at all
)
def test_poorly_localized_boxes_count_from_the_curve_of_their_overlap_on(
    tmp_path, iou_type, shift, expected
):
    areas = areas_of_cat(tmp_path, SCENE, [thing(CAT, [shift, 0, 40, 40], 0.9)], iou_type)
    assert areas == pytest.approx(expected)


def test_missed_objects_cost_recall_until_the_last_curve(tmp_path):
    objects = [thing(CAT, LEFT), thing(CAT, RIGHT)]
    areas = areas_of_cat(tmp_path, objects, [thing(CAT, LEFT, 0.9)])
    assert areas == pytest.approx([51 / 101] * 6 + [1])  # recalls from 0.00 to 0.50


@pytest.mark.parametrize('kind', ['bbox', 'segm'])
def test_annotations_of_unlisted_images_are_not_missed(kind, tmp_path):
    path = write_truth(tmp_path, [thing(CAT, LEFT)])
    content = json.loads(path.read_text())
    content['annotations'].append({**content['annotations'][0], 'image_id': 99})
    path.write_text(json.dumps(content))
    analysis = analyze_errors(read_ground_truth(path), [thing(CAT, LEFT, 0.9)], kind)
    assert analysis.areas('cat')[:, SIZES.index('all')].tolist() == pytest.approx([1] * 7)


def test_every_size_counts_its_own_objects(tmp_path):
    large = thing(CAT, [0, 0, 150, 150], image=1)
    found = [thing(CAT, LEFT, 0.9)]
    for size, expected in {'medium': 1.0, 'large': 0.0, 'small': math.nan}.items():
        areas = areas_of_cat(tmp_path, [*SCENE, large], found, size=size)
        assert areas[:6] == pytest.approx([expected] * 6, nan_ok=True)


def test_categories_without_a_supercategory_have_no_similar_ones(tmp_path):
    categories = [dict(id=c['id'], name=c['name']) for c in CATEGORIES]
    found = [*RIGHT_ONES, thing(CAT, RIGHT, 0.9)]
    areas = areas_of_cat(tmp_path, SCENE, found, categories=categories)
    assert areas == pytest.approx([0.5] * 4 + [1] * 3)


def test_a_class_without_objects_is_not_in_the_mean(tmp_path):
    truth = read_ground_truth(write_truth(tmp_path, SCENE[:1]))
    analysis = analyze_errors(truth, [thing(CAT, LEFT, 0.9), thing(DOG, RIGHT, 0.9)])
    assert np.isnan(analysis.areas('dog')).all()
    assert analysis.areas()[:, 0] == pytest.approx(np.ones(7))
    assert '| dog | 0 |  |  |  |  |  |  |  |' in str(analysis)


def test_categories_of_one_name_are_rejected(tmp_path):
    categories = [CATEGORIES[0], dict(CATEGORIES[1], name='cat'), CATEGORIES[2]]
    with pytest.raises(UserError, match=r"names \(1\): name 'cat'"):
        read_ground_truth(write_truth(tmp_path, SCENE, categories))


def test_a_class_may_be_named_mean(tmp_path):
    categories = [dict(CATEGORIES[0], name='mean'), *CATEGORIES[1:]]
    truth = read_ground_truth(write_truth(tmp_path, SCENE, categories))
    analyze_errors(truth, [thing(CAT, LEFT, 0.9)]).save(tmp_path)
    saved = json.loads((tmp_path / 'errors.json').read_text())
    assert saved['classes']['mean']['all']['C50'] == 1
    assert saved['mean']['all']['C50'] == pytest.approx(1 / 3, abs=1e-4)


@pytest.fixture(scope='module')
def noisy(tmp_path_factory) -> tuple[Path, list[dict]]:
    """Forty images with objects of all sizes, and detections with all kinds of errors."""
    rng = np.random.default_rng(0)
    objects, found = [], []
    for image in range(40):
        for _ in range(rng.integers(1, 5)):
            category = int(rng.choice([CAT, DOG, CAR]))
            side = rng.uniform(12, 120, 2)
            box = np.concatenate([rng.uniform(0, [300, 200] - side), side])
            objects.append(thing(category, box.tolist(), image=image))
            for _ in range(3):
                moved = box + rng.normal(0, 0.08, 4) * np.tile(side, 2)
                named = category if rng.random() < 0.7 else int(rng.choice([CAT, DOG, CAR]))
                moved = np.maximum(moved, [0, 0, 2, 2]).tolist()
                found.append(thing(named, moved, float(rng.random()), image))
    return write_truth(tmp_path_factory.mktemp('noisy'), objects), found


@pytest.mark.parametrize('iou_type', ['bbox', 'segm'])
def test_the_first_curves_are_those_of_the_coco_metric(noisy, iou_type):
    path, found = noisy
    truth = read_ground_truth(path)
    areas = analyze_errors(truth, found, iou_type).areas()
    with contextlib.redirect_stdout(io.StringIO()):
        metric = COCOeval(truth, load(truth, found, iou_type), iou_type)
        metric.evaluate()
        metric.accumulate()
    precision = metric.eval['precision'][..., -1]  # (overlaps, recalls, classes, sizes)
    overlaps = metric.params.iouThrs.round(2).tolist()
    for curve, overlap in (('C75', 0.75), ('C50', 0.5)):
        expected = precision[overlaps.index(overlap)].mean(axis=(0, 1))
        assert areas[CURVES.index(curve)] == pytest.approx(expected)
        assert 0 < expected[0] < 0.95  # not trivial


@pytest.mark.parametrize('iou_type', ['bbox', 'segm'])
def test_sim_and_oth_equal_those_of_mmdets_tool(noisy, iou_type, capsys):
    tool = Path(mmdet.__file__).parent / '.mim/tools/analysis_tools/coco_error_analysis.py'
    analyze_category = runpy.run_path(str(tool))['analyze_individual_category']
    path, found = noisy
    truth = read_ground_truth(path)
    analysis = analyze_errors(truth, found, iou_type)
    detections = load(truth, found, iou_type)
    bounds = [32**2, 96**2, 1e10]
    for k, name in enumerate(analysis.classes):
        category = CATEGORIES[k]['id']
        _, curves = analyze_category(k, detections, truth, category, iou_type, bounds)
        ours = analysis.curves(name)
        np.testing.assert_allclose(ours[3], curves['ps_supercategory'][..., 0])
        np.testing.assert_allclose(ours[4], curves['ps_allcategory'][..., 0])
        assert ours[2, :, 0].mean() < ours[4, :, 0].mean()  # there are errors to ignore


def load(truth: COCO, found: list[dict], iou_type: str) -> COCO:
    chosen = select(found, iou_type)
    if iou_type == 'segm':
        encode_masks(truth, chosen)
    return load_detections(truth, chosen)


def test_detections_below_the_score_threshold_are_ignored(tmp_path):
    truth = read_ground_truth(write_truth(tmp_path, SCENE))
    found = [thing(CAT, LEFT, 0.9), thing(DOG, RIGHT, 0.3)]
    areas = [analyze_errors(truth, found, score_thr=s).areas()[1, 0] for s in (0, 0.5, 1)]
    assert areas == pytest.approx([2 / 3, 1 / 3, 0])


def test_images_that_are_numbered_otherwise_are_matched_by_name(tmp_path):
    objects = [thing(CAT, LEFT, image=0), thing(DOG, RIGHT, image=1)]
    truth = read_ground_truth(write_truth(tmp_path, objects))
    path, names = tmp_path / 'found.json', tmp_path / 'found.images.json'
    path.write_text(json.dumps([thing(DOG, RIGHT, 0.5, image=0), thing(CAT, LEFT, 0.5, image=7)]))
    names.write_text(json.dumps([dict(id=0, file_name='a/1.png'), dict(id=7, file_name='0.png')]))
    assert [row['image_id'] for row in read_detections(path, truth)] == [1, 0]
    names.write_text(json.dumps([dict(id=0, file_name='1.png'), dict(id=7, file_name='c.png')]))
    with pytest.raises(UserError, match=r'has c\.png, of which the annotation file has 0'):
        read_detections(path, truth)
    numbers = [dict(id=2, file_name='1.png'), dict(id=3, file_name='0.png')]  # none is an id
    names.write_text(json.dumps(numbers))
    path.write_text(json.dumps([thing(DOG, RIGHT, 0.5, image=2), thing(CAT, LEFT, 0.5, image=3)]))
    assert [row['image_id'] for row in read_detections(path, truth)] == [1, 0]
    path.write_text(json.dumps([thing(DOG, RIGHT, 0.5, image=1)]))
    names.write_text(json.dumps([dict(id=1, file_name='other.png')]))  # of other images
    with pytest.raises(UserError, match=r'has other\.png, of which the annotation file has 0'):
        read_detections(path, truth)


def test_a_pickle_of_mmdet_has_the_same_detections(tmp_path):
    truth = read_ground_truth(write_truth(tmp_path, SCENE))
    mask = encode(np.zeros((200, 300), np.uint8, order='F'))  # its counts are bytes
    instances = dict(
        bboxes=torch.tensor([[0.0, 0.0, 40.0, 40.0], [100.0, 0.0, 140.0, 40.0]]),
        scores=torch.tensor([0.5, 0.25]),
        labels=torch.tensor([0, 2]),
        masks=[mask] * 2,
    )
    path = tmp_path / 'found.pkl'
    path.write_bytes(pickle.dumps([dict(img_id=0, pred_instances=instances)]))
    (first, second) = read_detections(path, truth)
    assert first == dict(image_id=0, category_id=CAT, bbox=LEFT, score=0.5, segmentation=mask)
    assert second == dict(image_id=0, category_id=CAR, bbox=RIGHT, score=0.25, segmentation=mask)
    (first, _) = read_detections(path, truth, classes=('car', 'cat', 'dog'))
    assert first['category_id'] == CAT  # mmdet orders classes as in the file
    with pytest.raises(UserError, match='label 2'):
        read_detections(path, truth, classes=('dog', 'car'))
    with pytest.raises(UserError, match=r'cow.* cat, dog, car'):
        read_detections(path, truth, classes=('cow',))


def sample(img_path: str = '', **fields: object) -> bytes:
    """Predictions of mmdet with one object."""
    found = dict(bboxes=torch.ones(1, 4), scores=torch.ones(1), labels=torch.zeros(1)) | fields
    return pickle.dumps([dict(img_id=0, img_path=img_path, pred_instances=found)])


def masked(segmentation: object) -> bytes:
    """Results in JSON with one object of a mask."""
    return json.dumps([thing(CAT, LEFT, 0.5) | dict(segmentation=segmentation)]).encode()


@pytest.mark.parametrize(
    ('name', 'content', 'message'),
    [
        ('map.pkl', pickle.dumps([dict(pred_sem_seg=1)]), 'pred_instances'),
        ('size.pkl', sample(masks=[dict(size=5, counts=b'01')]), 'invalid mask: 5'),
        ('arrays.pkl', sample(masks=[dict(size=np.ones(2), counts=b'0')]), 'arrays.pkl'),
        ('numbers.pkl', sample(masks=torch.ones(1, 4, 4)), 'numbers.pkl'),
        ('scores.pkl', sample(scores=[10**400]), 'scores.pkl'),
        ('complex.pkl', sample(scores=torch.ones(1, dtype=torch.complex64)), 'complex.pkl'),
        ('other.pkl', sample(img_path='val/7.jpg'), '7.jpg as image 0, which is .*index/val'),
        ('labels.pkl', sample(labels=torch.ones(1, 2)), 'labels.pkl'),
        ('none.json', b'[]', 'none.json'),
        ('long.json', json.dumps([thing('a' * 999, LEFT, 0.5)]).encode(), 'category_id a{80},'),
        ('far.json', masked([[0, 0, 1e9, 0, 9, 9]]), 'outside'),
        ('code.json', masked(dict(size=[200, 300], counts='0PPP')), 'run lengths'),
    ],
    ids=lambda value: value if isinstance(value, str) else '',  # bytes of tensors are never equal
)
def test_a_file_that_is_not_a_results_file_is_reported(tmp_path, name, content, message):
    truth = read_ground_truth(write_truth(tmp_path, SCENE))
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message) as raised:
        read_detections(tmp_path / name, truth)
    assert name in str(raised.value)
    assert '\n' not in str(raised.value)
    assert len(str(raised.value)) < 300


def test_a_detection_whose_box_is_null_is_named(tmp_path):
    truth = read_ground_truth(write_truth(tmp_path, [thing(CAT, LEFT)]))
    with pytest.raises(UserError, match='--types bbox'):
        analyze_errors(truth, [{**thing(CAT, LEFT, 0.5), 'bbox': None}])


def test_annotations_that_crash_pycocotools_are_named(tmp_path):
    objects = [thing(CAT, LEFT) | dict(segmentation=[[0, 0, 1e9, 0, 9, 1e9]])]
    with pytest.raises(UserError, match=r'truth\.json.*annotation 1'):
        read_ground_truth(write_truth(tmp_path, objects))
    for odd in ([1], {'a': 1}):
        categories = [dict(CATEGORIES[0], supercategory=odd), *CATEGORIES[1:]]
        with pytest.raises(UserError, match=r'supercategory .*id 3'):
            read_ground_truth(write_truth(tmp_path, [thing(DOG, LEFT)], categories))


def test_missing_masks_and_invalid_areas_are_named(tmp_path):
    truth = read_ground_truth(write_truth(tmp_path, SCENE))
    with pytest.raises(UserError, match='segm'):
        analyze_errors(truth, [dict(image_id=0, category_id=CAT, score=0.5, bbox=LEFT)], 'segm')
    del truth.anns[1]['segmentation']
    with pytest.raises(UserError, match='mask'):
        analyze_errors(truth, RIGHT_ONES, 'segm')
    with pytest.raises(UserError, match='9216'):
        analyze_errors(truth, RIGHT_ONES, areas=(9216, 1024))
