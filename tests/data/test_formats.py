"""Splits, masks and label maps are written as they were drawn, and what cannot be is named."""

import json
import shutil

import cv2
import numpy as np
import pytest

from mmeffvit.data.detect import Task, detect
from mmeffvit.data.prepare import PrepareOptions, prepare, read
from mmeffvit.data.shapes import CLASSES
from mmeffvit.data.write import classes_of_maps
from mmeffvit.errors import UserError
from mmeffvit.utils.images import read_labels
from tests.conftest import message_of, run_tool_here, succeeded
from tests.data import layouts
from tests.data.layouts import coco, each
from tests.data.sets import (
    counts,
    drawn,
    files_in,
    outline_of,
    polygon_line,
    write_maps,
    write_voc,
    write_yolo,
)

CONVERTER = 'dataset_converters/convert_dataset.py'


def read_index(folder, split):
    return json.loads((folder / f'{split}.json').read_text())


def test_the_pieces_of_a_coco_set_are_found_from_one_file_as_well(shapes, tmp_path):
    _, whole = prepare(shapes, tmp_path / 'whole', PrepareOptions())
    path = shapes / 'annotations' / 'instances_train2017.json'
    _, single = prepare(path, tmp_path / 'single', PrepareOptions(seed=3))
    assert whole['train'].count == 12
    assert whole['val'].count == 4
    assert (single['train'].count, single['val'].count) == (10, 2)
    info = read_index(tmp_path / 'single', 'val')['info']
    assert info['validation split'] == dict(seed=3, fraction=0.2)
    first = read_index(tmp_path / 'whole', 'train')['annotations'][0]
    assert first['segmentation']['size'] == [64, 64]


def test_a_made_split_is_seeded_and_holds_every_class(tmp_path):
    root = write_yolo(tmp_path / 'data', train=30, val=0)
    names = {}
    for run, seed in (('a', 0), ('b', 0), ('c', 1)):
        data, _ = prepare(root, tmp_path / run, PrepareOptions(seed=seed))
        names[run] = [image['file_name'] for image in read_index(tmp_path / run, 'val')['images']]
        assert len(names[run]) == 6
        assert set(data.count('val')) == set(range(4)) == set(data.count('train'))
    assert names['a'] == names['b'] != names['c']


def test_polygons_of_yolo_become_masks_and_label_maps(tmp_path):
    root = write_yolo(tmp_path / 'data', line=polygon_line)
    data, _ = prepare(root, tmp_path / 'coco', PrepareOptions(needs_masks=True))
    assert data.has_masks
    area = read_index(tmp_path / 'coco', 'train')['annotations'][0]['area']
    assert area == pytest.approx(cv2.contourArea(outline_of(drawn(0, 0)[1][0][1])), abs=0.01)
    prepare(root, tmp_path / 'maps', PrepareOptions(for_segmentor=True))
    labels = read_labels(tmp_path / 'maps' / 'train' / '000001.png')
    expected = np.zeros((64, 64), np.uint8)
    for label, mask in drawn(0, 0)[1]:
        expected[mask] = label + 1
    assert (labels != expected).mean() < 0.02
    assert read_index(tmp_path / 'maps', 'train')[0] == ['train_0.png', 'train/000001.png']


@pytest.mark.parametrize(
    ('kind', 'table'),
    [
        ('values', ''),
        ('values', 'classes.txt'),
        ('values', 'data.yaml'),
        ('palette', 'classes.txt'),
        ('palette', 'labelmap.txt'),
        ('colors', 'classes.csv'),
        ('colors', 'labelmap.txt'),
        ('binary', ''),
    ],
)
def test_label_maps_of_every_kind_give_the_same_classes(kind, table, tmp_path):
    root = write_maps(tmp_path / 'data', kind=kind, table=table)
    before = files_in(root)
    data, splits = prepare(root, tmp_path / 'index', PrepareOptions(for_segmentor=True))
    assert files_in(root) == before
    assert splits['train'].count + splits['val'].count == 6
    name, label_map = read_index(tmp_path / 'index', 'train')[0]
    labels = read_labels(tmp_path / 'index' / label_map)
    true = np.zeros((64, 64), np.uint8)
    for label, mask in drawn(0, int(name[0]))[1]:
        true[mask] = 1 if kind == 'binary' else label + 1
    assert (labels == true).all()
    if kind == 'binary':
        assert data.classes == ['background', 'foreground']
    elif table:
        assert data.classes == ['ground', *CLASSES]
    else:
        assert data.classes == ['background', 'class 1', 'class 2', 'class 3', 'class 4']


def test_label_maps_without_a_class_are_refused(tmp_path):
    root = write_maps(tmp_path / 'data', table='classes.txt')
    for path in (root / 'masks').iterdir():
        cv2.imwrite(str(path), np.full((64, 64), 255, np.uint8))
    with pytest.raises(UserError, match='every pixel of the label maps is ignored'):
        prepare(root, tmp_path / 'index', PrepareOptions(for_segmentor=True))


def test_a_label_mapping_says_which_values_are_classes_and_which_are_void(tmp_path):
    root = write_maps(tmp_path / 'data')
    rows = ['masks_dir: masks', 'names: [first, second]', 'train: images', 'label_mapping:']
    rows += ['  0: ignore_label', '  1: 1', '  2: 0', '  3: -1', '  4: 255']
    (root / 'data.yaml').write_text('\n'.join(rows))
    data, _ = prepare(root, tmp_path / 'index', PrepareOptions(for_segmentor=True))
    assert data.classes == ['first', 'second']
    assert detect(root / 'data.yaml').task is detect(root).task is Task.LABEL_MAPS
    found = set()
    for name, label_map in read_index(tmp_path / 'index', 'train'):
        labels, true = read_labels(tmp_path / 'index' / label_map), np.zeros((64, 64), np.uint8)
        for label, mask in drawn(0, int(name[0]))[1]:
            true[mask] = label + 1
        assert (labels == np.array([255, 1, 0, 255, 255], np.uint8)[true]).all()
        found |= set(true.ravel())
    assert {0, 1, 2} < found
    (root / 'data.yaml').write_text('\n'.join([*rows[:4], '  null: 0']))
    with pytest.raises(UserError, match=r'data.yaml is not a table of classes \(.*None'):
        prepare(root, tmp_path / 'none', PrepareOptions(for_segmentor=True))


@pytest.mark.parametrize(
    ('break_it', 'words'),
    [
        (lambda root: shutil.rmtree(root), 'does not exist'),
        (lambda root: (root / 'data.yaml').unlink(), 'but no names: write data.yaml'),
        (lambda root: (root / 'data.yaml').write_text('train: images/train'), 'no classes'),
        (lambda root: (root / 'data.yaml').write_text('train: x\nnames: [a]'),
         "'x' does not exist"),
        (lambda root: (root / 'data.yaml').write_text('train: images/train\nnc: 3\nnames: [a]'),
         '`nc` is 3, but `names` has 1'),
        (lambda root: [p.unlink() for p in root.rglob('*.txt')], 'there is nothing to train on'),
        (lambda root: (shutil.rmtree(root / 'labels'), (root / 'data.yaml').unlink()),
         'in no known form'),
    ],
)  # fmt: skip
def test_a_folder_without_data_is_rejected_with_a_fix(break_it, words, tmp_path):
    root = write_yolo(tmp_path / 'data')
    break_it(root)
    with pytest.raises(UserError, match=words.replace('[', r'\[')):
        prepare(root, tmp_path / 'index', PrepareOptions())


def test_objects_of_coco_become_label_maps_as_its_own_tools_draw_them(tmp_path):
    layout = each('train/{}.jpg') | each('val/{}.jpg', numbers=[3, 4])
    content = coco([f'train/{i}.jpg' for i in range(3)] + ['val/3.jpg', 'val/4.jpg'])
    content['categories'] += [
        dict(id=3, name='Background', supercategory='x'),
        dict(id=4, name='person', supercategory='person'),
    ]
    first, second = content['annotations'][:2]
    first.update(bbox=[5, 10, 30, 20], segmentation=[[5, 10, 35, 10, 35, 30, 5, 30]])
    second.update(bbox=[50, 5, 2, 50], segmentation=[[50, 5, 52, 55, 50, 5]])  # a line
    patch = dict(bbox=[6, 12, 4, 5], segmentation=[[6, 12, 10, 12, 10, 17, 6, 17]], area=20)
    content['annotations'].append(dict(first, **patch, id=99, category_id=3))
    layouts.write(tmp_path / 'data', layout | {'data.json': content})
    options = PrepareOptions(for_segmentor=True)
    data, _ = prepare(tmp_path / 'data', tmp_path / 'index', options)
    assert counts(data) == dict(train=3, val=2)
    assert classes_of_maps(data) == ['background', 'bolt', 'nut', 'person']
    found = read_labels(tmp_path / 'index' / 'train' / '000001.png')
    assert ((found == 1).sum(), (found == 2).sum()) == (30 * 20 - 4 * 5, 51)
    assert (found[12:17, 6:10] == 0).all()


def test_images_beside_a_list_for_validation_alone_are_to_train_on(tmp_path):
    root = write_voc(tmp_path / 'data')
    before = read(root, PrepareOptions()).splits
    (root / 'ImageSets/Main/train.txt').unlink()
    after = read(root, PrepareOptions()).splits
    assert [p.path for p in after['val']] == [p.path for p in before['val']]
    assert {p.path for p in after['train']} >= {p.path for p in before['train']}
    for path in root.glob('Annotations/*.xml'):
        if path.stem not in (root / 'ImageSets/Main/val.txt').read_text().split():
            path.unlink()
    with pytest.raises(UserError, match=r'no object in any \.xml file to train on; all are of val'):
        read(root, PrepareOptions())


def test_label_maps_are_not_for_detectors(tmp_path):
    write_maps(tmp_path / 'maps')
    with pytest.raises(UserError, match='only segmentors can be trained on'):
        prepare(tmp_path / 'maps', tmp_path / 'a', PrepareOptions())


def test_the_tool_writes_an_index_and_one_message_for_faults(tmp_path):
    root = write_yolo(tmp_path / 'data', train=8, val=0)
    printed = succeeded(run_tool_here(CONVERTER, root, tmp_path / 'out', '--val-fraction', 0.25))
    assert f'train.json: 6 images, names relative to {root}/images/train' in printed
    (root / 'labels' / 'train' / 'train_0.txt').write_text('x')
    message = message_of(run_tool_here(CONVERTER, root, tmp_path / 'other'))
    assert message.startswith('the dataset has errors, see above: lines that are not')
    run = run_tool_here(CONVERTER, root, tmp_path / 'other', '--val-fraction', 2)
    assert message_of(run).startswith('--val-fraction is 2.0')
