"""Public data sets and exports of tools are read as they are published, or refused by name."""

import json
import re

import pytest

from mmeffvit.data.detect import Task, detect
from mmeffvit.data.faults import BOX_EMPTY, MAPS_SEVERAL, Grade
from mmeffvit.data.prepare import PrepareOptions, prepare
from mmeffvit.data.records import Object
from mmeffvit.data.write import Split, area_of, to_coco
from mmeffvit.errors import UserError
from tests.conftest import published
from tests.data import layouts
from tests.data.layouts import boxes, sides
from tests.data.public_layouts import READ, REFUSED
from tests.data.sets import counts, files_in

OTHERS = {  # formats that fit as well
    'BCCD': 'csv', 'COCO 2017 with panoptic maps': 'masks', 'VOC 2007 and 2012': 'masks',
    **dict.fromkeys(('KITTI of CVAT', 'ISIC 2017'), 'classes'),
}  # fmt: skip


@pytest.mark.parametrize('name', READ)
def test_layout_is_read_with_its_splits_and_objects_and_the_folder_stays(name, tmp_path, capsys):
    layout, format_, images, count = READ[name]
    root = layouts.write(tmp_path / 'data', layout)
    before = files_in(root)
    found = detect(root)
    task = {'masks': Task.LABEL_MAPS, 'classes': Task.CLASSES}.get(format_, Task.OBJECTS)
    assert (found.format, found.task) == (format_, task)
    assert ', '.join(other.format for other in found.others) == OTHERS.get(name, '')
    data = found.read()
    assert counts(data) == images
    assert not data.findings.of(Grade.WARNING, Grade.ERROR)
    if task is not Task.OBJECTS:
        assert len(data.classes) == count
        return
    data, splits = prepare(root, tmp_path / 'index', PrepareOptions())
    assert f'{root}: {data.format}, ' in capsys.readouterr().out
    assert sum(check_index(split, name) for split in splits.values()) == count
    assert files_in(root) == before


def check_index(split: Split, name: str) -> int:
    """The objects of a written split, each of which is one of its image."""
    index = json.loads(split.annotations.read_text())
    paths = {image['id']: split.images / image['file_name'] for image in index['images']}
    assert len(paths) == split.count
    assert all(path.is_file() for path in paths.values())
    classes = {row['id']: row['name'] for row in index['categories']}
    found = set()
    for row in index['annotations']:
        number = int(re.findall(r'\d+', paths[row['image_id']].stem)[-1])
        own = {sides(box): kind for kind, box in boxes(number).items()}
        kind = own[tuple(round(value, 2) for value in row['bbox'])]
        assert classes[row['category_id']] == ('object' if name == 'Global Wheat' else kind)
        found.add((row['image_id'], kind))
    assert len(found) == len(index['annotations'])
    return len(found)


@pytest.mark.parametrize('name', REFUSED)
def test_layout_is_refused_with_what_was_found(name, tmp_path):
    layout, words = REFUSED[name]
    layouts.write(tmp_path, layout)
    with pytest.raises(UserError) as error:
        detect(tmp_path).read()
    assert re.search(words, str(error.value))


@pytest.mark.parametrize(
    'layout',
    [
        layouts.each('mask/{}.jpg') | layouts.each('no_mask/{}.jpg'),
        layouts.each('cat/{}.jpg') | layouts.each('dog/{}.png'),
        layouts.splits('images'),
        layouts.splits('all') | {'splits/train.txt': 'bolt/allbolt0.JPEG'},
    ],
)
def test_folders_that_may_be_something_else_are_classes_if_the_user_says_so(layout, tmp_path):
    layouts.write(tmp_path, layout)
    with pytest.raises(UserError, match='if the folders are classes, give --format classes'):
        detect(tmp_path)
    assert len(detect(tmp_path, 'classes').read().classes) == 2


def test_an_image_with_two_label_maps_is_left_out(tmp_path):
    both = layouts.each('b ({}).png') | layouts.each('b ({})_mask.png', layouts.disks)
    layouts.write(tmp_path, both | {'b (1)_mask_1.png': layouts.disks(4)})  # BUSI
    data = detect(tmp_path).read()
    assert [path.path.name for path in data.splits['train']] == ['b (0).png', 'b (2).png']
    assert list(data.findings.counts) == [MAPS_SEVERAL]


def test_holes_of_polygons_are_no_part_of_an_object(tmp_path):
    layouts.write(tmp_path, layouts.supervisely())
    polygon, bitmap = detect(tmp_path).read().splits['train'][1].objects
    assert area_of(polygon) == 30 * 20 - 10 * 10
    assert area_of(bitmap) == 30 * 20


@pytest.mark.parametrize(
    ('outline', 'area'),
    [
        ([10, 10, 40, 10, 40, 40, 10, 40], 900),
        ([10, 10, 40, 10, 40, 20], 150),
        ([10, 10, 40, 10, 10, 40, 40, 40], 900),  # crosses itself: the area of the box
        ([10, 10, 25, 25, 40, 40], 900),  # a line
    ],
)
def test_an_object_has_an_area_whatever_its_outline(outline, area):
    assert to_coco(Object(0, (10, 10, 30, 30), 'x', [outline]))['area'] == area


@pytest.mark.parametrize('inner', ['', 'BCCD'])
def test_a_clone_of_bccd_is_read_without_an_option(inner, tmp_path):
    """Every file of the repository; two boxes have no area, and no image is lost."""
    source = published('bccd')
    clone = tmp_path / 'clone'
    layouts.write(clone, {k: v for k, v in layouts.bccd().items() if not k.startswith('BCCD/')})
    (clone / 'BCCD').mkdir()
    for name in ('Annotations', 'ImageSets', 'JPEGImages'):
        (clone / 'BCCD' / name).symlink_to(source / name)
    data, _ = prepare(clone / inner, tmp_path / 'index', PrepareOptions())
    assert counts(data) == dict(train=205, val=87, test=72)
    assert data.findings.counts[BOX_EMPTY] == 2
    assert not data.findings.of(Grade.WARNING, Grade.ERROR)
