"""Every format of labeling tools gives the boxes that were drawn, and names what it cannot read."""

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

from mmeffvit.data import faults
from mmeffvit.data.detect import Task, detect
from mmeffvit.data.prepare import PrepareOptions, prepare
from mmeffvit.data.shapes import CLASSES
from mmeffvit.errors import UserError
from tests.data.formats import writers
from tests.data.formats.writers import COUNT, WRITERS
from tests.data.sets import box_of, drawn, files_in


@pytest.mark.parametrize('name', WRITERS)
def test_boxes_are_those_that_were_drawn_and_the_folder_stays(name, tmp_path):
    write, format_ = WRITERS[name]
    root = tmp_path / 'data'
    write(root)
    before = files_in(root)
    found = detect(root)
    assert (found.format, found.task) == (format_, Task.OBJECTS)
    assert not found.others
    data, _ = prepare(root, tmp_path / 'index', PrepareOptions())
    assert files_in(root) == before
    assert sorted(data.classes) == sorted(CLASSES)
    pictures = [picture for part in data.splits.values() for picture in part]
    assert len(pictures) == COUNT
    for picture in pictures:
        number = int(picture.path.stem.rpartition('_')[2])
        true = sorted((CLASSES[label], *map(int, box_of(m))) for label, m in drawn(0, number)[1])
        read = sorted((data.classes[i.label], *corners(i.box)) for i in picture.objects)
        assert [row[0] for row in read] == [row[0] for row in true]
        assert np.allclose([row[1:] for row in read], [row[1:] for row in true], atol=1e-3)


def corners(box: tuple[float, ...]) -> tuple[float, ...]:
    left, top, width, height = box
    return left, top, left + width, top + height


@pytest.mark.parametrize('name', ['labelme', 'CVAT', 'VIA 2', 'CreateML', 'Supervisely', 'darknet'])
def test_one_file_of_annotations_is_a_dataset_as_well(name, tmp_path):
    write, format_ = WRITERS[name]
    write(tmp_path)
    pattern = {'darknet': 'obj.data', 'CVAT': '*.xml', 'Supervisely': '0.jpg.json'}
    path = next(p for p in sorted(tmp_path.rglob(pattern.get(name, '*.json'))))
    assert detect(path).format == format_


@pytest.mark.parametrize(
    ('name', 'path', 'old', 'new', 'words'),
    [
        ('labelme', '0.json', '"points": [[', '"points": [["x", ', r'0\.json, shape 1'),
        ('CVAT', 'annotations.xml', 'xtl="', 'xtl="x', r'annotations\.xml, line 4'),
        ('VIA 2', 'via_project.json', '"x": ', '"x": "a", "z": ', r'0\.jpg, region 1'),
        ('CreateML', 'train/_annotations.createml.json', '"x": ', '"z": ', 'annotation 1'),
        ('Label Studio', 'project-1.json', '"x": ', '"x": null, "z": ', 'task 1, result 1'),
        ('Supervisely', 'ds/ann/0.jpg.json', '[[', '[["x", ', r'0\.jpg\.json, object 1'),
        ('KITTI', 'training/label_2/0.txt', ' 1.6 ', ' ', r'0\.txt, line 1: 14 columns'),
        ('CSV of TensorFlow', 'train_labels.csv', ',0.jpg,', ',0.jpg,x', r'labels\.csv, line 2'),
        ('darknet', 'obj_train_data/0.txt', ' ', ' x', r'0\.txt, line 1'),
    ],
)
def test_a_broken_object_is_named_with_its_file_and_place(
    name, path, old, new, words, tmp_path, capsys
):
    WRITERS[name][0](tmp_path / 'data')
    file = tmp_path / 'data' / path
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(UserError, match='--skip-broken skips them'):
        prepare(tmp_path / 'data', tmp_path / 'index', PrepareOptions())
    assert faults.FILE_BROKEN.what not in capsys.readouterr().out
    assert re.search(words, (tmp_path / 'index' / 'faults.txt').read_text())


def test_what_is_no_box_and_no_outline_is_said(tmp_path, capsys):
    writers.labelme(tmp_path / 'data')
    path = tmp_path / 'data' / '0.json'
    content = json.loads(path.read_text())
    for kind, points in (('point', [[1, 1]]), ('line', [[1, 1], [5, 5]])):
        content['shapes'].append(dict(label='x', points=points, shape_type=kind))
    path.write_text(json.dumps(content))
    data, _ = prepare(tmp_path / 'data', tmp_path / 'index', PrepareOptions())
    assert 'x' not in data.classes
    said = capsys.readouterr().out
    assert 'not read (2)' in said
    assert '0.json, shape' in said
    assert ': line' in said


def test_shapes_of_one_group_are_one_object_of_labelme(tmp_path):
    writers.labelme(tmp_path / 'data')
    path = tmp_path / 'data' / '0.json'
    content = json.loads(path.read_text())
    parts = ([[0, 0], [9, 0], [9, 9]], [[20, 0], [29, 0], [29, 9]])
    content['shapes'] = [
        dict(label='star', points=part, shape_type='polygon', group_id=1) for part in parts
    ]
    path.write_text(json.dumps(content))
    data = detect(tmp_path / 'data').read()
    (item,) = next(p for p in data.splits['train'] if p.path.stem == '0').objects
    assert item.box == (0, 0, 29, 9)
    assert len(item.mask) == 2


def test_masks_of_brushes_are_decoded(tmp_path):
    """CVAT's run lengths and labelme's PNG."""
    import base64

    import cv2

    mask = drawn(0, 0)[1][0][1]
    left, top, right, bottom = (int(value) for value in box_of(mask))
    part = mask[top:bottom, left:right]
    flat = np.concatenate([[False], part.ravel(), [False]])
    edges = np.flatnonzero(flat[1:] != flat[:-1])
    runs = np.diff([0, *edges, part.size])
    runs = runs[: len(runs) - (runs[-1] == 0)]
    writers.cvat(tmp_path / 'cvat')
    path = tmp_path / 'cvat' / 'annotations.xml'
    element = f'<mask label="star" rle="{", ".join(map(str, runs))}" left="{left}" top="{top}" '
    element += f'width="{right - left}" height="{bottom - top}"/></image>'
    path.write_text(path.read_text().replace('</image>', element, 1))
    writers.labelme(tmp_path / 'labelme')
    path = tmp_path / 'labelme' / '0.json'
    content = json.loads(path.read_text())
    png = base64.b64encode(cv2.imencode('.png', part.astype(np.uint8))[1]).decode()
    points = [[left, top], [right - 1, bottom - 1]]
    content['shapes'].append(dict(label='star', points=points, shape_type='mask', mask=png))
    path.write_text(json.dumps(content))
    from mmeffvit.data.write import to_mask

    for name in ('cvat', 'labelme'):
        data = detect(tmp_path / name).read()
        picture = next(p for p in data.splits['train'] if p.path.stem == '0')
        item = picture.objects[-1]
        assert (to_mask(item, (64, 64)) == mask).all()
        assert item.box == (left, top, right - left, bottom - top)


def test_documents_of_xml_that_define_entities_are_not_read(tmp_path):
    writers.cvat(tmp_path)
    path = tmp_path / 'annotations.xml'
    bomb = '<!DOCTYPE a [<!ENTITY b "bbbb"><!ENTITY c "&b;&b;">]>'
    path.write_text(path.read_text().replace('<annotations>', f'{bomb}<annotations>'))
    with pytest.raises(UserError, match='a document type is not read'):
        detect(tmp_path).read()


def test_names_that_lead_outside_are_not_followed(tmp_path):
    writers.tensorflow(tmp_path / 'data')
    (tmp_path / 'data' / 'images' / '0.jpg').rename(tmp_path / 'holiday.jpg')
    path = tmp_path / 'data' / 'train_labels.csv'
    path.write_text(path.read_text().replace(',0.jpg,', ',../holiday.jpg,'))
    data = detect(tmp_path / 'data').read()
    assert data.findings.counts[faults.IMAGE_OUTSIDE] > 0
    assert all(p.path.is_relative_to(tmp_path / 'data') for p in data.splits['train'])


def test_pipes_and_links_to_nothing_are_not_opened(tmp_path):
    for name, (write, format_) in WRITERS.items():
        root = tmp_path / name
        write(root)
        for suffix in ('.xml', '.json', '.yaml', '.csv', '.txt', '.data', '.names', '.tsv'):
            os.mkfifo(root / f'a{suffix}')
            Path(root / f'b{suffix}').symlink_to('nowhere')
        assert detect(root).format == format_, name
