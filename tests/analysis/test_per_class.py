"""Per-class AP and IoU are correct for all kinds of results."""

import json
import math
import pickle
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from PIL import Image

from mmeffvit.analysis.per_class import ClassValues, draw_bars, per_class, to_markdown
from mmeffvit.errors import UserError
from tests.conftest import ROOT

SHAPES = str(ROOT / 'configs' / 'maskrcnn_swiftformer_xs_shapes.py')
ADE = str(ROOT / 'configs' / 'semfpn_swiftformer_l1_ade20k.py')


def measure(results: Path, shapes: Path) -> list[ClassValues]:
    return per_class(SHAPES, results, results.parent, {'data_root': f'{shapes}/'})


def test_found_classes_have_100_ap_and_missed_ones_0(perfect, shapes, tmp_path):
    there = sorted({row['category_id'] for row in perfect})
    assert len(there) > 1
    lost = there[0]
    results = tmp_path / 'found.json'
    results.write_text(json.dumps([row for row in perfect if row['category_id'] != lost]))
    box, mask = measure(results, shapes)
    assert (box.metric, mask.metric) == ('box AP', 'mask AP')
    expected = [
        0 if category == lost else 100 if category in there else math.nan  # no ground truth
        for category in (1, 2, 3, 4)
    ]
    for table in (box, mask):
        assert list(table.values) == ['circle', 'square', 'triangle', 'star']
        assert list(table.values.values()) == pytest.approx(expected, nan_ok=True)
        assert table.mean == pytest.approx(np.nanmean(expected), abs=0.1)


def test_the_type_of_the_metric_may_be_a_class(perfect, shapes, tmp_path):
    from mmdet.evaluation import CocoMetric

    results = tmp_path / 'found.json'
    results.write_text(json.dumps(perfect))
    options = {
        'data_root': f'{shapes}/',
        'test_evaluator': dict(type=CocoMetric, metric=['bbox', 'segm'], _delete_=True),
    }
    tables = per_class(SHAPES, results, tmp_path, options)
    assert [(table.metric, table.mean) for table in tables] == [('box AP', 100), ('mask AP', 100)]


def test_masks_of_results_may_be_polygons_and_may_be_missing(perfect, shapes, tmp_path):
    results = tmp_path / 'found.json'
    for row in perfect:
        left, top, width, height = row['bbox']
        right, bottom = left + width, top + height
        row['segmentation'] = [[left, top, right, top, right, bottom, left, bottom]]
    results.write_text(json.dumps(perfect))
    box, mask = measure(results, shapes)
    assert box.mean > mask.mean > 0
    results.write_text(json.dumps([{**perfect[0], 'segmentation': None}, *perfect[1:]]))
    (same,) = measure(results, shapes)
    assert same.mean == box.mean


def test_results_are_measured_on_annotations_that_lack_crowds(perfect, shapes, tmp_path):
    path = shapes / 'annotations' / 'instances_val2017.json'
    content = json.loads(path.read_text())
    for row in content['annotations']:
        del row['iscrowd']
    (tmp_path / 'truth.json').write_text(json.dumps(content))
    (tmp_path / 'found.json').write_text(json.dumps(perfect))
    options = {
        'data_root': f'{shapes}/',
        'test_dataloader.dataset.ann_file': str(tmp_path / 'truth.json'),
        'test_evaluator.ann_file': str(tmp_path / 'truth.json'),
    }
    box, mask = per_class(SHAPES, tmp_path / 'found.json', tmp_path, options)
    assert box.mean == mask.mean == 100


def test_results_without_boxes_are_reported(perfect, shapes, tmp_path):
    results = tmp_path / 'found.json'
    results.write_text(json.dumps([{**perfect[0], 'bbox': None}, *perfect[1:]]))
    with pytest.raises(UserError, match=r'found\.json has a detection without bbox'):
        measure(results, shapes)


def test_iou_of_label_maps_is_correct(ade_shapes, tmp_path):
    (path,) = (ade_shapes / 'annotations' / 'validation').glob('*.png')
    true = np.asarray(Image.open(path)).astype(int)
    found = true.copy()
    found[: found.shape[0] // 3] = 1  # all wall
    deep = tmp_path / 'maps' / 'validation'
    deep.mkdir(parents=True)
    Image.fromarray(found.astype(np.uint8)).save(deep / path.name)
    (table,) = per_class(ADE, tmp_path / 'maps', tmp_path, {'data_root': f'{ade_shapes}/'})
    counted = true > 0
    expected = {}
    for value, name in enumerate(table.values, 1):
        one, other = (true == value) & counted, (found == value) & counted
        union = (one | other).sum()
        expected[name] = 100 * (one & other).sum() / union if union else math.nan
    assert sum(not math.isnan(value) for value in expected.values()) > 3
    assert list(table.values.values()) == pytest.approx(list(expected.values()), nan_ok=True)
    assert table.mean == pytest.approx(np.nanmean(list(expected.values())))
    assert (tmp_path / 'per_class.md').read_text() == to_markdown([table])
    assert cv2.imread(str(tmp_path / 'per_class.png')) is not None
    # labels from 0, 255 ignored, as `test --out` dumps them
    maps = {
        'pred_sem_seg': np.where(found, found - 1, 0),
        'gt_sem_seg': np.where(true, true - 1, 255),
    }
    sample = {k: dict(data=torch.from_numpy(v[None].astype(np.uint8))) for k, v in maps.items()}
    dumped = tmp_path / 'found.pkl'
    dumped.write_bytes(pickle.dumps([sample]))
    (same,) = per_class(ADE, dumped, tmp_path, {'data_root': f'{ade_shapes}/'})
    assert same.mean == table.mean


def test_labels_above_255_are_not_read_as_bytes(ade_shapes, tmp_path):
    """Predictions of small labels are dumped as bytes, beside true labels that are not."""
    classes = {'test_dataloader.dataset.metainfo': dict(classes=[f'c{i}' for i in range(301)])}
    classes['test_dataloader.dataset.type'] = 'BaseSegDataset'
    maps = dict(
        pred_sem_seg=torch.full((1, 4, 4), 44).byte(), gt_sem_seg=torch.full((1, 4, 4), 300)
    )
    sample = {key: dict(data=value) for key, value in maps.items()}
    (tmp_path / 'found.pkl').write_bytes(pickle.dumps([sample]))
    options = {'data_root': f'{ade_shapes}/', **classes}
    (table,) = per_class(ADE, tmp_path / 'found.pkl', tmp_path, options)
    assert (table.values['c44'], table.values['c300']) == (0, 0)


def test_a_class_without_ground_truth_has_an_empty_cell(tmp_path):
    table = ClassValues('IoU', 50.0, {'cat': 50.0, 'dog': math.nan})
    rows = to_markdown([table]).splitlines()
    assert [cell.strip() for cell in rows[-1].split('|')] == ['', 'dog', '', '']
    assert [cell.strip() for cell in rows[2].split('|')] == ['', '**mean**', '50.0', '']
    many = ClassValues('IoU', 50.0, {f'class {i}': 50.0 for i in range(150)})
    draw_bars([table], 'two', tmp_path / 'few.png')
    draw_bars([many], 'many', tmp_path / 'many.png')
    few, many = (cv2.imread(str(tmp_path / f'{name}.png')).shape for name in ('few', 'many'))
    assert many[0] > few[0]
    assert many[1] > few[1]


def test_results_of_other_data_are_reported(shapes, ade_shapes, tmp_path):
    results = tmp_path / 'found.json'
    results.write_text('[]')
    with pytest.raises(UserError, match='has no detections'):
        measure(results, shapes)
    for evaluator in (None, [dict(metric='bbox')]):
        options = {'data_root': f'{shapes}/', 'test_evaluator': evaluator}
        with pytest.raises(UserError, match='test_evaluator'):
            per_class(SHAPES, results, tmp_path, options)
    (tmp_path / 'maps').mkdir()
    with pytest.raises(UserError, match='0 label maps'):
        per_class(ADE, tmp_path / 'maps', tmp_path, {'data_root': f'{ade_shapes}/'})


BROKEN = {
    'truncated': lambda path: path.write_bytes(path.read_bytes()[:60]),
    'a folder': lambda path: (path.unlink(), path.mkdir()),
    'a broken link': lambda path: (path.unlink(), path.symlink_to('nowhere')),
    'in color': lambda path: cv2.imwrite(str(path), np.zeros((64, 64, 3), np.uint8)),
    'of no class': lambda path: cv2.imwrite(str(path), np.full((64, 64), 200, np.uint8)),
}


@pytest.mark.parametrize('name', BROKEN)
def test_a_broken_label_map_is_named(name, ade_shapes, tmp_path):
    shutil.copytree(ade_shapes / 'annotations' / 'validation', tmp_path / 'maps')
    BROKEN[name](min((tmp_path / 'maps').iterdir()))
    with pytest.raises(UserError, match='maps') as caught:
        per_class(ADE, tmp_path / 'maps', tmp_path, {'data_root': f'{ade_shapes}/'})
    assert '\n' not in str(caught.value)


def map_of(values: object) -> dict[str, object]:
    return dict(pred_sem_seg=dict(data=values), gt_sem_seg=dict(data=torch.ones(1, 4, 4).long()))


ODD = {
    'a list': map_of([[1]]),
    'of another size': map_of(torch.ones(1, 3, 3).long()),
    'of complex numbers': map_of(torch.ones(1, 4, 4, dtype=torch.complex64)),
    'beyond the classes': map_of(torch.full((1, 4, 4), 2**60)),
    'a number': dict(pred_sem_seg=5, gt_sem_seg=5),
    'without its annotation': dict(pred_sem_seg=dict(data=torch.ones(1, 4, 4).long())),
}


@pytest.mark.parametrize('name', ODD)
def test_a_pickle_of_odd_label_maps_is_one_line(name, ade_shapes, tmp_path):
    (tmp_path / 'found.pkl').write_bytes(pickle.dumps([ODD[name]]))
    with pytest.raises(UserError, match=r'found\.pkl') as caught:
        per_class(ADE, tmp_path / 'found.pkl', tmp_path, {'data_root': f'{ade_shapes}/'})
    assert '\n' not in str(caught.value)
