"""Images and label maps are paired by their names and by what they are, wherever they lie."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mmeffvit.data import faults
from mmeffvit.data.detect import Task, detect
from mmeffvit.data.prepare import PrepareOptions, prepare, read
from mmeffvit.errors import UserError
from tests.data import layouts
from tests.data.layouts import IMAGE, colored, each, labels
from tests.data.sets import counts

LAYOUTS: dict[str, tuple[str, str, dict[str, int]]] = {  # places of images, of maps, and splits
    'an ending': ('{split}/{n}.png', '{split}_labels/{n}_L.png', dict(train=3, val=2)),
    'both have endings': ('images/{n}_image.png', 'masks/{n}_mask.png', dict(train=3)),
    'beginnings': ('pictures/img_{n}.jpg', 'truth/gt_{n}.png', dict(train=3)),
    'in one folder': ('all/{n}.jpg', 'all/{n}.png', dict(train=3)),
    'in one folder, ending': ('all/{n}.png', 'all/{n}_seg.png', dict(train=3)),
    'no names to go by': ('a/{n}.png', 'b/{n}.png', dict(train=3)),
    'of labelme': ('JPEGImages/{n}.jpg', 'SegmentationClassPNG/{n}.png', dict(train=3)),
    'splits inside': ('x/images/{split}/{n}.jpg', 'x/masks/{split}/{n}.png', dict(train=3, val=2)),
    'splits outside': ('{split}/image/{n}.jpg', '{split}/label/{n}.png', dict(train=3, test=2)),
    'words': ('images_prepped_{split}/{n}.png', 'annotations_prepped_{split}/{n}.png',
              dict(train=3, test=2)),
    'towns': ('images/{town}/{n}.png', 'annotations/{town}/{n}.png', dict(train=6)),
}  # fmt: skip


def write(root: Path, images: str, maps: str, splits: dict[str, int], draw: Any = labels) -> None:
    layout = {}
    for split, count in splits.items():
        for i in range(count):
            place = dict(split=split, n=f'{i % 3:03d}', town='Aachen' if i < 3 else 'Bonn')
            layout |= {images.format(**place): IMAGE, maps.format(**place): draw(i)}
    layouts.write(root, layout)


@pytest.mark.parametrize('name', LAYOUTS)
def test_maps_are_found_by_their_names_and_by_what_they_are(name, tmp_path):
    images, maps, splits = LAYOUTS[name]
    write(tmp_path, images, maps, splits)
    found = detect(tmp_path)
    assert (found.format, found.task) == ('masks', Task.LABEL_MAPS)
    data = found.read()
    assert counts(data) == splits
    assert not data.findings.counts
    assert len(data.classes) == 3
    for part in data.splits.values():
        for picture in part:
            number = re.search(r'\d+', picture.path.stem).group()
            assert number in picture.label_map.stem
            town = {'Aachen', 'Bonn'} & {*picture.path.parts}
            assert town <= {*picture.label_map.parts}


def test_of_the_maps_of_cityscapes_those_that_are_trained_count(tmp_path):
    layout = {}
    for split in ('train', 'val'):
        stem = f'{split}/ulm/ulm_{{}}_000019'
        layout |= each(f'leftImg8bit/{stem}_leftImg8bit.png')
        for kind in ('instanceIds', 'labelIds', 'labelTrainIds'):
            layout |= each(f'gtFine/{stem}_gtFine_{kind}.png', labels)
        layout |= each(f'gtFine/{stem}_gtFine_color.png', colored)
    data = detect(layouts.write(tmp_path, layout)).read()
    assert counts(data) == dict(train=3, val=3)
    maps = [p.label_map.stem for part in data.splits.values() for p in part]
    assert all(stem.endswith('_labelTrainIds') for stem in maps)
    assert not data.findings.counts


def test_lists_of_voc_choose_the_images_wherever_the_devkit_lies(tmp_path):
    base = 'VOCdevkit/VOC2012'
    lists = dict(train=range(4), val=range(4, 6), trainval=range(6))
    layout = each(f'{base}/JPEGImages/{{}}.jpg', numbers=range(9))
    for kind in ('Class', 'Object'):
        layout |= each(f'{base}/Segmentation{kind}/{{}}.png', labels, range(6))
    for split, numbers in lists.items():
        layout[f'{base}/ImageSets/Segmentation/{split}.txt'] = layouts.lines('{}', numbers)
    data = detect(layouts.write(tmp_path, layout)).read()
    assert counts(data) == dict(train=4, val=2)
    assert {p.label_map.parent.name for p in data.splits['train']} == {'SegmentationClass'}
    assert data.findings.counts == {faults.IMAGE_UNLISTED: 3}


@pytest.mark.parametrize('inner', ['', 'inner', 'SegmentationClassPNG'])
def test_lists_of_pairs_give_the_splits_of_one_folder(inner, tmp_path):
    write(tmp_path / 'inner' if inner == 'inner' else tmp_path, *LAYOUTS['of labelme'])
    train, val = tmp_path / inner / 'train.txt', tmp_path / inner / 'val.txt'
    train.write_text('/x/JPEGImages/000.jpg /x/y/000.png\n1/001.jpg 1/001.png\n')
    val.write_text('/x/JPEGImages/002.jpg /x/y/002.png\n')
    data = detect(tmp_path).read()
    assert counts(data) == dict(train=2, val=1)


def test_colors_without_a_table_are_listed_with_their_share(tmp_path):
    write(tmp_path, 'a/{n}.jpg', 'b/{n}.png', dict(train=3), colored)
    with pytest.raises(UserError, match='classes are not known') as caught:
        detect(tmp_path).read()
    lines = str(caught.value).splitlines()
    assert lines[1] == '  name,r,g,b'
    colors = sorted(line.split()[1].partition(',')[2] for line in lines[2:])
    assert colors == ['0,0,0', '0,128,0', '128,0,0']
    assert all(re.search(r'3\d\.\d% of the pixels', line) for line in lines[2:])
    table = '\n'.join(line.strip().partition('    ')[0] for line in lines[1:])
    (tmp_path / 'classes.csv').write_text(table)
    assert detect(tmp_path).read().classes == ['name 1', 'name 2', 'name 3']


def test_a_table_names_colors_and_what_is_ignored_is_said(tmp_path, capsys):
    write(tmp_path / 'data', 'a/{n}.jpg', 'b/{n}.png', dict(train=3), colored)
    text = 'name,r,g,b\nroad,0,0,0\ncar,128,0,0\nvoid,0,128,0\n'
    (tmp_path / 'data' / 'class_dict.csv').write_text(text)
    data, _ = prepare(tmp_path / 'data', tmp_path / 'out', PrepareOptions(for_segmentor=True))
    assert data.classes == ['road', 'car']
    said = capsys.readouterr().out
    assert 'classes: road, car' in said
    assert 'ignored: void' in said


def test_tables_lie_above_the_maps_and_other_csv_files_are_none(tmp_path):
    layout = {'people.csv': 'id,name\n1,Ann\n1,Ann\n', 'sites.csv': b'nr;ort\n1;K\xf6ln'}
    for split in ('train', 'valid'):
        layout |= layouts.both(f'a/{split}/{split}{{}}', f'a/{split}/{split}{{}}_mask', labels)
        layout[f'a/{split}/_classes.csv'] = 'Pixel Value, Class\n0, void\n1, bolt\n2, nut\n'
    data = detect(layouts.write(tmp_path, layout)).read()
    assert (data.classes, data.ignored) == (['bolt', 'nut'], ['void'])
    (tmp_path / 'a/valid/_classes.csv').write_text('Pixel Value, Class\n1, nut\n2, bolt\n0, void\n')
    with pytest.raises(UserError, match='number the classes differently'):
        detect(tmp_path).read()


def test_an_empty_line_between_the_classes_of_label_maps_is_an_error(tmp_path):
    write(tmp_path, *LAYOUTS['of labelme'])
    (tmp_path / 'classes.txt').write_text('a\n\nb\nc\n')
    with pytest.raises(UserError, match=r'classes\.txt, line 2 is empty'):
        detect(tmp_path).read()


def test_a_class_of_the_table_without_a_pixel_is_noted(tmp_path, capsys):
    write(tmp_path / 'data', *LAYOUTS['of labelme'])
    text = '__ignore__\n_background_\ncrate\nbuoy\nrope\n'
    (tmp_path / 'data' / 'class_names.txt').write_text(text)
    data, _ = prepare(tmp_path / 'data', tmp_path / 'out', PrepareOptions(for_segmentor=True))
    assert data.classes == ['_background_', 'crate', 'buoy', 'rope']
    assert f"{faults.CLASS_EMPTY.what} (1)\n    'rope'" in capsys.readouterr().out


def test_folders_that_cannot_be_guessed_are_named(tmp_path):
    layout = {**each('one/{}.png', labels), **each('two/deep/{}.png', labels)}  # both look alike
    layouts.write(tmp_path, layout)
    with pytest.raises(UserError, match='--images DIR --masks DIR'):
        read(tmp_path, PrepareOptions(format='masks'))
    options = PrepareOptions(images=Path('one'), masks=Path('two'))
    assert len(read(tmp_path, options).splits['train']) == 3
    with pytest.raises(UserError, match='belong together'):
        read(tmp_path, PrepareOptions(images=Path('one')))
    with pytest.raises(UserError, match=r'three is not a folder'):
        read(tmp_path, PrepareOptions(images=Path('one'), masks=Path('three')))


@pytest.mark.parametrize(
    ('images', 'masks'),
    [('sample {0}/images/{0}.png', 'sample {0}/masks/{0}'), ('images/{}.png', 'masks/{0}/{0}')],
)
def test_one_mask_per_object_gives_objects_with_masks(images, masks, tmp_path):
    layout = each(images)
    for k in range(2):
        mask = np.zeros((64, 96), np.uint8)
        mask[4 : 9 + k, 20 * k : 20 * k + 7] = 255
        layout |= each(f'{masks}_{k}.png', mask)
    found = detect(layouts.write(tmp_path / 'data', layout))
    assert found.format == 'object-masks'
    data, _ = prepare(tmp_path / 'data', tmp_path / 'out', PrepareOptions(needs_masks=True))
    assert data.classes == ['object']
    assert sorted(item.box for item in data.objects()) == [(0, 4, 7, 5)] * 3 + [(20, 4, 7, 6)] * 3
