"""Our COCO metric gives mmdet's numbers, to the bit."""

import json
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from mmeffvit.registry import METRICS
from mmeffvit.utils.quiet import quiet

HEIGHT, WIDTH, NUM_CLASSES = 120, 160, 6
FIELDS = ('precision', 'recall', 'scores')


def encoded(box: list[float]) -> dict:
    """The mask of a diamond in a box."""
    x, y, w, h = box
    corners = [x, y + h / 2, x + w / 2, y, x + w, y + h / 2, x + w / 2, y + h]
    mask = coco_mask.frPyObjects([corners], HEIGHT, WIDTH)[0]
    return {**mask, 'counts': mask['counts'].decode()}


def generated(num_images: int) -> tuple[dict, list[dict]]:
    """Annotations with crowds and images without objects, and detections with equal scores."""
    rng = np.random.default_rng(0)
    images = [dict(id=i, height=HEIGHT, width=WIDTH, file_name='') for i in range(num_images)]
    objects, found = [], []
    for image in images:
        for _ in range(rng.integers(8)):
            size = np.exp(rng.uniform(np.log(4), np.log(110), 2))
            box = [*rng.uniform(0, (WIDTH, HEIGHT) - size).round(1), *size.round(1)]
            row = dict(image_id=image['id'], category_id=int(rng.integers(1, NUM_CLASSES + 1)))
            shape = dict(bbox=box, area=float(box[2] * box[3] / 2), segmentation=encoded(box))
            crowd = int(rng.random() < 0.05)
            objects.append(dict(**row, **shape, iscrowd=crowd, id=len(objects) + 1))
            for _ in range(rng.integers(4)):
                moved = np.maximum(box + rng.normal(0, 0.06, 4) * [*box[2:], *box[2:]], 1.0)
                found.append(dict(**row, bbox=moved.tolist(), score=round(rng.random(), 1)))
    # a number as the supercategory, which pycocotools does not read
    classes = [dict(id=i + 1, name=str(i), supercategory=i) for i in range(NUM_CLASSES)]
    return dict(info={}, images=images, annotations=objects, categories=classes), found


@pytest.fixture(scope='module')
def data(tmp_path_factory) -> tuple[Path, list[dict]]:
    truth, found = generated(60)
    path = tmp_path_factory.mktemp('coco') / 'truth.json'
    path.write_text(json.dumps(truth))
    return path, found


@pytest.mark.parametrize('kind', ['bbox', 'segm'])
@pytest.mark.parametrize(
    'settings',
    [{}, dict(maxDets=[100, 1, 10]), dict(catIds=[2, 4]), dict(imgIds=[3, 5, 8]),
     dict(iouThrs=np.array([0.5, 0.75]), maxDets=[1, 2, 3])],
    ids=lambda settings: next(iter(settings), 'default'),
)  # fmt: skip
def test_precisions_recalls_and_scores_are_those_of_pycocotools(data, kind, settings):
    pytest.importorskip('hotcoco')
    from mmeffvit.train.engine.coco_metric import HotEval

    path, found = data
    rows = [dict(row) for row in found]
    for row in rows if kind == 'segm' else ():
        row['segmentation'] = encoded(row.pop('bbox'))
    values = []
    with quiet():
        truth = COCO(path)
        for cls in (COCOeval, HotEval):
            run = cls(truth, truth.loadRes(deepcopy(rows)), kind)
            vars(run.params).update(settings)
            run.evaluate()
            run.accumulate()
            run.summarize()
            values.append((run.stats, *(run.eval[field] for field in FIELDS)))
    for ours, theirs in zip(values[1], values[0], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert 0.1 < values[0][0][1] < 0.9


def test_annotations_without_info_are_evaluated(data, tmp_path):
    truth = json.loads(data[0].read_text())
    del truth['info']
    (tmp_path / 'truth.json').write_text(json.dumps(truth))
    metric = METRICS.build(dict(type='mmeffvit.CocoMetric', ann_file=str(tmp_path / 'truth.json')))
    metric.dataset_meta = dict(classes=[str(i) for i in range(NUM_CLASSES)])
    found = dict(bboxes=np.ones((1, 4)), labels=np.zeros(1, int), scores=np.ones(1))
    metric.results.append((dict(img_id=0), dict(found, img_id=0)))
    assert metric.evaluate(1)['coco/bbox_mAP'] <= 0.1


@pytest.mark.parametrize('is_installed', [True, False])
def test_the_metric_is_mmdets(data, is_installed, monkeypatch):
    if is_installed:
        pytest.importorskip('hotcoco')
    else:
        monkeypatch.setattr('mmeffvit.train.engine.coco_metric.find_spec', lambda name: None)
    path, found = data
    rows = {i: [row for row in found if row['image_id'] == i] for i in range(60)}
    values = []
    for scope in ('mmdet', 'mmeffvit'):
        with quiet():
            metric = METRICS.build(
                dict(type=f'{scope}.CocoMetric', ann_file=str(path), classwise=True)
            )
            metric.dataset_meta = dict(classes=[str(i) for i in range(NUM_CLASSES)])
            for image, own in rows.items():
                boxes = np.array([row['bbox'] for row in own]).reshape(-1, 4)
                boxes[:, 2:] += boxes[:, :2]
                labels = np.array([row['category_id'] - 1 for row in own], int)
                scores = np.array([row['score'] for row in own])
                found = dict(img_id=image, bboxes=boxes, labels=labels, scores=scores)
                metric.results.append((dict(img_id=image), found))
            values.append(metric.evaluate(len(rows)))
    assert values[0] == values[1]
    assert values[0]['coco/bbox_mAP'] > 0.1
