"""Images and label maps are paired by their names and by what they are, wherever they lie."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mmeffvit.data import faults
from mmeffvit.data.detect import Task, detect
from mmeffvit.data.prepare import PrepareOptions, prepare, read
from mmeffvit.errors import UserError

RNG = np.random.default_rng(0)
SIZE = (32, 48)
COLORS = np.array([(0, 0, 0), (128, 0, 0), (0, 128, 0)], np.uint8)


def image(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(RNG.integers(0, 255, (*SIZE, 3), np.uint8)).save(path)


def label_map(path: Path, kind: str = 'values') -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    values = np.repeat(np.arange(3, dtype=np.uint8), SIZE[0] * SIZE[1] // 3).reshape(SIZE)
    Image.fromarray(COLORS[values] if kind == 'colors' else values).save(path)


LAYOUTS: dict[str, tuple[str, str, dict[str, int]]] = {  # places of images, of maps, and splits
    'sisters': ('{split}/{n}.png', '{split}annot/{n}.png', dict(train=3, val=2)),
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


def write(root: Path, images: str, maps: str, splits: dict[str, int], kind: str = 'values') -> None:
    towns = ('Aachen', 'Bonn') if '{town}' in images else ('',)
    for split, count in splits.items():
        for number in range(count // len(towns)):
            for town in towns:
                place = dict(split=split, n=f'{number:03d}', town=town)
                image(root / images.format(**place))
                label_map(root / maps.format(**place), kind)


@pytest.mark.parametrize('name', LAYOUTS)
def test_maps_are_found_by_their_names_and_by_what_they_are(name, tmp_path):
    images, maps, splits = LAYOUTS[name]
    write(tmp_path, images, maps, splits)
    found = detect(tmp_path)
    assert (found.format, found.task) == ('masks', Task.LABEL_MAPS)
    data = found.read()
    assert {split: len(part) for split, part in data.splits.items()} == splits
    assert not data.findings.counts
    assert len(data.classes) == 3
    for part in data.splits.values():
        for picture in part:
            number = re.search(r'\d+', picture.path.stem).group()
            assert number in picture.label_map.stem
            town = {'Aachen', 'Bonn'} & {*picture.path.parts}
            assert town <= {*picture.label_map.parts}


def test_of_the_maps_of_cityscapes_those_that_are_trained_count(tmp_path):
    for split in ('train', 'val'):
        for number in range(2):
            stem = f'ulm_{number:06d}_000019'
            image(tmp_path / 'leftImg8bit' / split / 'ulm' / f'{stem}_leftImg8bit.png')
            for kind in ('instanceIds', 'labelIds', 'labelTrainIds', 'color'):
                folder = tmp_path / 'gtFine' / split / 'ulm'
                how = 'colors' if kind == 'color' else 'values'
                label_map(folder / f'{stem}_gtFine_{kind}.png', how)
    data = detect(tmp_path).read()
    assert {split: len(part) for split, part in data.splits.items()} == dict(train=2, val=2)
    maps = [p.label_map.stem for part in data.splits.values() for p in part]
    assert all(stem.endswith('_labelTrainIds') for stem in maps)
    assert not data.findings.counts


def test_lists_of_voc_choose_the_images_wherever_the_devkit_lies(tmp_path):
    base = tmp_path / 'VOCdevkit' / 'VOC2012'
    for number in range(9):
        image(base / 'JPEGImages' / f'{number}.jpg')
    for number in range(6):
        label_map(base / 'SegmentationClass' / f'{number}.png')
        label_map(base / 'SegmentationObject' / f'{number}.png')
    lists = base / 'ImageSets' / 'Segmentation'
    lists.mkdir(parents=True)
    (lists / 'train.txt').write_text('0\n1\n2\n3\n')
    (lists / 'val.txt').write_text('4\n5\n')
    (lists / 'trainval.txt').write_text('0\n1\n2\n3\n4\n5\n')
    data = detect(tmp_path).read()
    assert {split: len(part) for split, part in data.splits.items()} == dict(train=4, val=2)
    assert {p.label_map.parent.name for p in data.splits['train']} == {'SegmentationClass'}
    assert data.findings.counts == {faults.IMAGE_UNLISTED: 3}


def test_lists_of_pairs_give_the_splits_of_one_folder(tmp_path):
    write(tmp_path, *LAYOUTS['of labelme'])
    (tmp_path / 'train.txt').write_text('/x/JPEGImages/000.jpg /x/y/000.png\n1/001.jpg 1/001.png\n')
    (tmp_path / 'val.txt').write_text('/x/JPEGImages/002.jpg /x/y/002.png\n')
    data = detect(tmp_path).read()
    assert {split: len(part) for split, part in data.splits.items()} == dict(train=2, val=1)


def test_colors_without_a_table_are_listed_with_their_share(tmp_path):
    write(tmp_path, 'a/{n}.jpg', 'b/{n}.png', dict(train=3), 'colors')
    with pytest.raises(UserError, match='classes are not known') as caught:
        detect(tmp_path).read()
    lines = str(caught.value).splitlines()
    assert lines[1] == '  name,r,g,b'
    colors = sorted(line.split()[1].partition(',')[2] for line in lines[2:])
    assert colors == ['0,0,0', '0,128,0', '128,0,0']
    assert all('33.3% of the pixels' in line for line in lines[2:])
    table = '\n'.join(line.strip().partition('    ')[0] for line in lines[1:])
    (tmp_path / 'classes.csv').write_text(table)
    assert detect(tmp_path).read().classes == ['name 1', 'name 2', 'name 3']


@pytest.mark.parametrize(
    ('name', 'text'),
    [
        ('class_dict.csv', 'name,r,g,b\nroad,0,0,0\ncar,128,0,0\nvoid,0,128,0\n'),
        ('labelmap.txt', '# label:color_rgb:parts:actions\nroad:0,0,0::\ncar:128,0,0::\n'
                         'void:0,128,0::\n'),
    ],
)  # fmt: skip
def test_a_table_names_colors_and_what_is_ignored_is_said(name, text, tmp_path, capsys):
    write(tmp_path / 'data', 'a/{n}.jpg', 'b/{n}.png', dict(train=3), 'colors')
    (tmp_path / 'data' / name).write_text(text)
    data, _ = prepare(tmp_path / 'data', tmp_path / 'out', PrepareOptions(for_segmentor=True))
    assert data.classes == ['road', 'car']
    said = capsys.readouterr().out
    assert 'classes: road, car' in said
    assert 'ignored: void' in said


def test_a_class_of_the_table_without_a_pixel_is_noted(tmp_path, capsys):
    write(tmp_path / 'data', *LAYOUTS['of labelme'])
    text = '__ignore__\n_background_\ncrate\nbuoy\nrope\n'
    (tmp_path / 'data' / 'class_names.txt').write_text(text)
    data, _ = prepare(tmp_path / 'data', tmp_path / 'out', PrepareOptions(for_segmentor=True))
    assert data.classes == ['_background_', 'crate', 'buoy', 'rope']
    assert f"{faults.CLASS_EMPTY.what} (1)\n    'rope'" in capsys.readouterr().out


def test_folders_that_cannot_be_guessed_are_named(tmp_path):
    write(tmp_path, 'one/{n}.png', 'two/deep/{n}.png', dict(train=3))
    for path in (tmp_path / 'one').iterdir():
        label_map(path)  # both look alike
    with pytest.raises(UserError, match='--images DIR --masks DIR'):
        read(tmp_path, PrepareOptions(format='masks'))
    options = PrepareOptions(images=Path('one'), masks=Path('two'))
    assert len(read(tmp_path, options).splits['train']) == 3
    with pytest.raises(UserError, match='belong together'):
        read(tmp_path, PrepareOptions(images=Path('one')))
    with pytest.raises(UserError, match=r'three is not a folder'):
        read(tmp_path, PrepareOptions(images=Path('one'), masks=Path('three')))


def of_one_folder(root: Path, number: int) -> tuple[Path, Path]:
    folder = root / f'sample {number}'
    return folder / 'images' / f'{number}.png', folder / 'masks'


def of_two_folders(root: Path, number: int) -> tuple[Path, Path]:
    return root / 'images' / f'{number}.png', root / 'masks' / f'{number}'


@pytest.mark.parametrize('layout', [of_one_folder, of_two_folders])
def test_one_mask_per_object_gives_objects_with_masks(
    layout: Callable[[Path, int], tuple[Path, Path]], tmp_path: Path
):
    for number in range(3):
        path, masks = layout(tmp_path / 'data', number)
        image(path)
        masks.mkdir(parents=True)
        for k in range(2):
            mask = np.zeros(SIZE, np.uint8)
            mask[4 : 9 + k, 20 * k : 20 * k + 7] = 255
            Image.fromarray(mask).save(masks / f'{number}_{k}.png')
    found = detect(tmp_path / 'data')
    assert found.format == 'object-masks'
    data, _ = prepare(tmp_path / 'data', tmp_path / 'out', PrepareOptions(needs_masks=True))
    assert data.classes == ['object']
    assert sorted(item.box for item in data.objects()) == [(0, 4, 7, 5)] * 3 + [(20, 4, 7, 6)] * 3
