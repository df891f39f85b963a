"""Every format of labeling tools names what it cannot read, and opens no other files."""

import base64
import math
import re
from pathlib import Path

import cv2
import numpy as np
import pytest

from mmeffvit.data import faults
from mmeffvit.data.check import check
from mmeffvit.data.detect import detect
from mmeffvit.data.formats.shapes import clipped, turned
from mmeffvit.data.prepare import PrepareOptions, prepare
from mmeffvit.data.write import to_mask
from mmeffvit.errors import UserError
from tests.data import layouts
from tests.data.layouts import boxes, disks, each
from tests.data.public_layouts import READ
from tests.data.sets import counts, edit_json
from tests.data.test_broken import replace


def written(name: str, root: Path) -> Path:
    """A folder in one of the layouts."""
    return layouts.write(root, READ[name][0])


@pytest.mark.parametrize('name', ['labelme', 'CVAT', 'VIA 2', 'CreateML', 'Supervisely', 'darknet'])
def test_one_file_of_annotations_is_a_dataset_as_well(name, tmp_path):
    written(name, tmp_path)
    pattern = {'darknet': 'obj.data', 'CVAT': '*.xml', 'Supervisely': '0.png.json'}
    path = next(p for p in sorted(tmp_path.rglob(pattern.get(name, '*.json'))))
    assert detect(path).format == READ[name][1]


@pytest.mark.parametrize(
    ('name', 'path', 'old', 'new', 'words'),
    [
        ('labelme', '0.json', '"points": [[', '"points": [["x", ', r'0\.json, shape 1'),
        ('CVAT', 'annotations.xml', 'xtl="', 'xtl="x', r'annotations\.xml, line 4'),
        ('VIA 2', 'via_project.json', '"x": ', '"x": "a", "z": ', r'0\.jpg, region 1'),
        ('CreateML', 'train/_annotations.createml.json', '"x": ', '"z": ', 'annotation 1'),
        ('Label Studio', 'project-1.json', '"x": ', '"x": null, "z": ', 'task 1, result 1'),
        ('Supervisely', 'ds1/ann/0.png.json', '[[', '[["x", ', r'0\.png\.json, object 1'),
        ('Supervisely', 'ds1/ann/0.png.json', 'objects": [', 'objects": [5, ', 'json, object 1'),
        ('KITTI', 'training/label_2/0.txt', ' 1.6 ', ' ', r'0\.txt, line 1: 14 columns'),
        ('CSV of TensorFlow', 'train_labels.csv', ',0.jpg,', ',0.jpg,x', r'labels\.csv, line 2'),
        ('darknet', 'obj_train_data/0.txt', ' ', ' x', r'0\.txt, line 1'),
    ],
)
def test_a_broken_object_is_named_with_its_file_and_place(
    name, path, old, new, words, tmp_path, capsys
):
    written(name, tmp_path / 'data')
    replace(tmp_path / 'data' / path, old, new)
    with pytest.raises(UserError, match='--skip-broken skips them'):
        prepare(tmp_path / 'data', tmp_path / 'index', PrepareOptions())
    assert faults.FILE_BROKEN.what not in capsys.readouterr().out
    assert re.search(words, (tmp_path / 'index' / 'faults.txt').read_text())


@pytest.mark.parametrize(
    ('name', 'path', 'change'),
    [
        ('CreateML', 'train/_annotations.createml.json', lambda c: c[0].update(annotations=5)),
        ('Label Studio', 'project-1.json', lambda c: c[0]['annotations'][0].update(result=5)),
        ('VIA 2', 'via_project.json', lambda c: c['_via_img_metadata']['0.jpg9'].update(regions=5)),
    ],
)
def test_objects_that_are_no_list_are_a_fault(name, path, change, tmp_path):
    edit_json(written(name, tmp_path) / path, change)
    assert detect(tmp_path).read().findings.counts[faults.RECORD_BROKEN] == 1


@pytest.mark.parametrize('content', [b'', bytes(100), b'[{"image": '])
def test_unreadable_files_of_createml_are_a_fault_each(content, tmp_path):
    folder = written('CreateML', tmp_path) / 'valid'
    folder.mkdir()
    (folder / '_annotations.createml.json').write_bytes(content)
    (folder / 'other.json').write_text('{"about": "another tool"}')
    data = detect(tmp_path).read()
    assert data.findings.counts[faults.FILE_BROKEN] == 1
    assert len(data.splits['train']) == 3


def test_ellipses_of_via_are_rotated(tmp_path):
    shape = dict(name='ellipse', cx=40, cy=30, rx=20, ry=5, theta=math.pi / 2)
    path = written('VIA 2', tmp_path) / 'via_project.json'
    edit_json(path, lambda c: c['_via_img_metadata']['0.jpg9']['regions'][0].update(
        shape_attributes=shape))  # fmt: skip
    picture = next(p for p in detect(tmp_path).read().splits['train'] if p.path.stem == '0')
    assert picture.objects[0].box == pytest.approx((35, 10, 10, 40))


@pytest.mark.parametrize(
    ('name', 'change'),
    [
        ('VIA 3', lambda content: next(iter(content['metadata'].values())).update(xy='')),
        ('VIA 3', lambda content: content['attribute']['1'].update(aname=5)),
        ('Supervisely', lambda content: content.update(tags=-1)),
    ],
)
def test_files_whose_values_have_other_types_are_read(name, change, tmp_path):
    edit_json(next(p for p in written(name, tmp_path).rglob('*.json') if p.stem != 'meta'), change)
    assert detect(tmp_path).read().splits['train']


def test_holes_in_an_image_without_a_size_are_a_fault(tmp_path):
    path = next(p for p in written('Supervisely', tmp_path).rglob('*.json') if p.stem != 'meta')
    edit_json(path, lambda content: content.pop('size'))
    assert 'a polygon in an image of 0 x 0' in str(detect(tmp_path).read().findings.places)


def test_a_region_of_via_without_its_image_is_said(tmp_path):
    def change(content):
        next(row for row in content['metadata'].values() if row['xy']).update(vid='no')

    path = next(written('VIA 3', tmp_path).glob('*.json'))
    edit_json(path, change)
    assert 'view no' in str(detect(tmp_path).read().findings.places)


def test_what_is_no_box_and_no_outline_is_said(tmp_path, capsys):
    added = [
        dict(label='x', points=points, shape_type=kind)
        for kind, points in (('point', [[1, 1]]), ('line', [[1, 1], [5, 5]]))
    ]
    path = written('labelme', tmp_path / 'data') / '0.json'
    edit_json(path, lambda content: content['shapes'].extend(added))
    data, _ = prepare(tmp_path / 'data', tmp_path / 'index', PrepareOptions())
    assert 'x' not in data.classes
    said = capsys.readouterr().out
    assert 'not read (2)' in said
    assert '0.json, shape' in said
    assert ': line' in said


def test_shapes_of_one_group_are_one_object_of_labelme(tmp_path):
    parts = ([[0, 0], [9, 0], [9, 9]], [[20, 0], [29, 0], [29, 9]])
    shapes = [dict(label='star', points=part, shape_type='polygon', group_id=1) for part in parts]
    path = written('labelme', tmp_path / 'data') / '0.json'
    edit_json(path, lambda content: content.update(shapes=shapes))
    data = detect(tmp_path / 'data').read()
    (item,) = next(p for p in data.splits['train'] if p.path.stem == '0').objects
    assert item.box == (0, 0, 29, 9)
    assert len(item.mask) == 2


@pytest.mark.parametrize(
    'layout',
    [layouts.labelme, layouts.label_me, layouts.cvat, layouts.via_2, layouts.label_studio],
)
def test_polygons_of_two_points_are_a_fault_of_every_format(layout, tmp_path, monkeypatch):
    monkeypatch.setattr(layouts, 'outline', lambda box: [box[:2], box[2:]])
    data = detect(layouts.write(tmp_path, layout())).read()
    check(data)
    assert data.findings.counts[faults.MASK_SHORT] == 3
    assert all(picture.num_broken for picture in data.splits['train'])


SHAPES = {
    '<box label="bolt" xtl="0" ytl="2" xbr="40" ybr="20" rotation="30"/>': (0, 0, 41.8, 28.8),
    '<ellipse label="bolt" cx="0" cy="30" rx="20" ry="10"/>': (0, 20, 20, 20),
}


@pytest.mark.parametrize('shape', SHAPES)
def test_a_computed_outline_is_clipped_to_its_image(shape, tmp_path):
    path = written('CVAT', tmp_path) / 'annotations.xml'
    path.write_text(path.read_text().replace('</image>', f'{shape}</image>', 1))
    data = detect(tmp_path).read()
    check(data)
    assert not {faults.BOX_OUTSIDE, faults.BOX_CLIPPED} & data.findings.counts.keys()
    item = next(p for p in data.splits['train'] if p.path.stem == '0').objects[-1]
    assert item.box == pytest.approx(SHAPES[shape], abs=0.1)
    assert len(item.mask[0]) > 6
    outside = turned((200, 0, 40, 20), (220, 10), 30)['outline']
    assert clipped(outside, (80, 120)) == outside  # the fault is reported


def test_masks_of_brushes_are_decoded(tmp_path):
    """CVAT's run lengths and labelme's PNG."""
    mask = disks(0) > 0
    left, top, width, height = cv2.boundingRect(mask.astype(np.uint8))
    part = mask[top : top + height, left : left + width]
    flat = np.concatenate([[False], part.ravel(), [False]])
    edges = np.flatnonzero(flat[1:] != flat[:-1])
    runs = np.diff([0, *edges, part.size])
    runs = runs[: len(runs) - (runs[-1] == 0)]
    path = written('CVAT', tmp_path / 'cvat') / 'annotations.xml'
    element = f'<mask label="nut" rle="{", ".join(map(str, runs))}" left="{left}" top="{top}" '
    element += f'width="{width}" height="{height}"/></image>'
    path.write_text(path.read_text().replace('</image>', element, 1))
    png = base64.b64encode(cv2.imencode('.png', part.astype(np.uint8))[1]).decode()
    points = [[left, top], [left + width - 1, top + height - 1]]
    shape = dict(label='nut', points=points, shape_type='mask', mask=png)
    path = written('labelme', tmp_path / 'labelme') / '0.json'
    edit_json(path, lambda content: content['shapes'].append(shape))
    for name in ('cvat', 'labelme'):
        data = detect(tmp_path / name).read()
        picture = next(p for p in data.splits['train'] if p.path.stem == '0')
        item = picture.objects[-1]
        assert (to_mask(item, mask.shape) == mask).all()
        assert item.box == (left, top, width, height)


@pytest.mark.parametrize('name', ['xml', 'txt'])
def test_lists_beside_a_folder_of_annotations_give_the_splits(name, tmp_path):
    layout = each('ds/images/{}.jpg')
    if name == 'xml':  # as Oxford Pets has them
        layout |= each('ds/ann/xmls/{}.xml', lambda i: layouts.voc(f'{i}.jpg', boxes(i)))
        layout |= {'ds/ann/trainval.txt': '0 1\n1 1\n2 1\n', 'ds/ann/test.txt': '2 1\n'}
    else:
        layout |= each('ds/labels/{}.txt', layouts.yolo) | {'ds/classes.txt': 'bolt\nnut\n'}
        layout |= {'ds/train.txt': 'images/0.jpg\nimages/1.jpg\n', 'ds/test.txt': 'images/2.jpg\n'}
    data = detect(layouts.write(tmp_path, layout)).read()
    assert counts(data) == dict(train=2, test=1)


def test_documents_of_xml_that_define_entities_are_not_read(tmp_path):
    path = written('CVAT', tmp_path) / 'annotations.xml'
    bomb = '<!DOCTYPE a [<!ENTITY b "bbbb"><!ENTITY c "&b;&b;">]>'
    path.write_text(path.read_text().replace('<annotations>', f'{bomb}<annotations>'))
    with pytest.raises(UserError, match='a document type is not read'):
        detect(tmp_path).read()
