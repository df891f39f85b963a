"""Public data sets and exports of tools are read as they are published, or refused by name."""

import re
from pathlib import Path

import pytest

from mmeffvit.data.detect import detect
from mmeffvit.data.faults import BOX_EMPTY, Grade
from mmeffvit.data.prepare import PrepareOptions, prepare
from mmeffvit.data.write import area_of
from mmeffvit.errors import UserError
from tests.conftest import SHARED
from tests.data import layouts
from tests.data.layouts import BOLT, NUT, READ, REFUSED, sides


@pytest.mark.parametrize('name', READ)
def test_layout_is_read_with_its_splits_and_objects(name, tmp_path):
    layout, format_, images, count = READ[name]
    layouts.write(tmp_path, layout)
    found = detect(tmp_path)
    assert found.format == format_
    data = found.read()
    assert {split: len(part) for split, part in data.splits.items()} == images
    items = [item for item in data.objects() if min(item.box[2:]) > 0]
    of_boxes = format_ not in ('masks', 'classes')
    assert (len(items) if of_boxes else len(data.classes)) == count
    if of_boxes:
        for item in items:
            item.scale((64, 96))
        boxes = {tuple(round(value, 2) for value in item.box) for item in items}
        assert boxes <= {tuple(sides(box)) for box in (BOLT, NUT)}
    assert not data.findings.of(Grade.WARNING, Grade.ERROR)


@pytest.mark.parametrize('name', REFUSED)
def test_layout_is_refused_with_what_was_found(name, tmp_path):
    layout, words = REFUSED[name]
    layouts.write(tmp_path, layout)
    with pytest.raises(UserError) as error:
        detect(tmp_path).read()
    assert re.search(words, str(error.value))


def test_holes_of_polygons_are_no_part_of_an_object(tmp_path):
    layouts.write(tmp_path, layouts.supervisely())
    polygon, bitmap = detect(tmp_path).read().splits['train'][0].objects
    assert area_of(polygon) == 30 * 20 - 10 * 10
    assert area_of(bitmap) == 30 * 20


def link(source: Path, target: Path, names: set[str]) -> None:
    """Link those files of a folder whose names without suffix are given."""
    target.mkdir(parents=True)
    for path in source.iterdir():
        if path.stem in names:
            (target / path.name).symlink_to(path)


@pytest.mark.parametrize('inner', ['', 'BCCD'])
def test_a_clone_of_bccd_is_read_without_an_option(inner, tmp_path):
    """Every file of the repository; two boxes have no area, and no image is lost."""
    source = SHARED / 'bccd'
    if not source.is_dir():
        pytest.skip(f'the images are not at {source}')
    clone = tmp_path / 'clone'
    layouts.write(clone, {k: v for k, v in layouts.bccd().items() if not k.startswith('BCCD/')})
    (clone / 'BCCD').mkdir()
    for name in ('Annotations', 'ImageSets', 'JPEGImages'):
        (clone / 'BCCD' / name).symlink_to(source / name)
    data, _ = prepare(clone / inner, tmp_path / 'index', PrepareOptions())
    counts = {split: len(part) for split, part in data.splits.items()}
    assert counts == dict(train=205, val=87, test=72)
    assert data.findings.counts[BOX_EMPTY] == 2
    assert not data.findings.of(Grade.WARNING, Grade.ERROR)


@pytest.mark.parametrize('inner', ['', 'CamVid'])
def test_a_clone_of_camvid_is_read_without_an_option(inner, tmp_path):
    """A tenth of its images, in the folders of the repository."""
    source = SHARED / 'camvid'
    if not source.is_dir():
        pytest.skip(f'the images are not at {source}')
    clone = tmp_path / 'clone'
    layouts.write(clone, {k: v for k, v in layouts.camvid().items() if not k.startswith('CamVid/')})
    wanted = {}
    for split in ('train', 'val', 'test'):
        names = {path.stem for path in sorted((source / split).iterdir())[::10]}
        wanted[split] = len(names)
        for folder in (split, f'{split}annot'):
            link(source / folder, clone / 'CamVid' / folder, names)
    options = PrepareOptions(for_segmentor=True)
    data, _ = prepare(clone / inner, tmp_path / 'index', options)
    assert {split: len(part) for split, part in data.splits.items()} == wanted
    assert len(data.classes) == 12
    assert not data.findings.of(Grade.WARNING, Grade.ERROR)
