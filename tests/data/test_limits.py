"""Odd and large datasets end in one clear line, in time that grows with their size alone."""

import gc
import os
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import cv2
import mmcv
import numpy as np
import pytest
from PIL import Image

from mmeffvit.data import faults
from mmeffvit.data.faults import Findings
from mmeffvit.data.files import images_below
from mmeffvit.data.formats.darknet import LINE
from mmeffvit.data.index import LEAST, ImageIndex
from mmeffvit.data.prepare import PrepareOptions, prepare, read, split_off
from mmeffvit.data.records import DataSet, Object, Picture
from mmeffvit.errors import UserError
from mmeffvit.utils.images import (
    ImageFacts,
    Unreadable,
    inspect,
    inspect_header,
    read_image,
    read_size,
)
from mmeffvit.version import __version__
from tests.data.sets import write_maps, write_voc, write_yolo
from tests.utils.odd_images import save_rotated

BOX = (1.0, 1.0, 9.0, 9.0)
MAPS = PrepareOptions(for_segmentor=True)
BOMB = ''.join(f'a{i}: &a{i} [{", ".join([f"*a{i - 1}"] * 9)}]\n' for i in range(1, 30))

YAML = 'is not a YAML file in UTF-8 without aliases'


@pytest.mark.parametrize(
    ('text', 'words'),
    [
        ('names: &n [a, b]\nval: *n', YAML),
        (f'a0: &a0 x\n{BOMB}names: *a29', YAML),
        (f'names: [a]\nnc: {"9" * 6000}', YAML),
        ('names: [a]\nnc: 2024-99-99', YAML),
        ('names: ' + '[' * 50_000, YAML),
        ('names: ["\\ud800"]', YAML),
        ('names: !!python/object/apply:os.system ["touch canary"]', YAML),
        ('names: ["a\\nb"]', r"class 0 has the character '\\n'"),
        (f'names: [{"x" * 10_000}]', 'has 10,000 characters'),
    ],
    ids=['alias', 'bomb', 'digits', 'date', 'deep', 'surrogate', 'code', 'lines', 'long'],
)
def test_yaml_that_cannot_be_read_is_rejected_at_once(text, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    root = write_yolo(tmp_path / 'data')
    (root / 'data.yaml').write_text(f'{text}\ntrain: images/train\n')
    start = time.process_time()
    with pytest.raises(UserError, match=words):
        read(root, PrepareOptions())
    assert time.process_time() - start < 5
    assert not (tmp_path / 'canary').exists()


@pytest.mark.parametrize(
    ('line', 'words'),
    [
        ('train: 2024-01-01', '`train` is datetime'),
        ('train: [[a]]', '`train` is '),
        ('path: [a]', '`path` is '),
        ('train: {a: b}', '`train` is '),
        ('train: ' + 'x' * 5000, 'does not exist'),
        ('train: images/train\nvalid: images/val', '`val` and `valid`, which are the same'),
        ('train: a\nvalidation: a', '`validation: a` are the same'),
    ],
)
def test_places_in_yaml_are_texts(line, words, tmp_path):
    root = write_yolo(tmp_path / 'data')
    text = (root / 'data.yaml').read_text().replace('train: images/train', line)
    (root / 'data.yaml').write_text(text)
    with pytest.raises(UserError, match=words):
        read(root, PrepareOptions())


def test_links_that_lead_around_in_a_circle_are_entered_once(tmp_path):
    root = write_yolo(tmp_path / 'data')
    images = root / 'images' / 'train'
    for name in ('a', 'b', 'c'):
        (images / name).mkdir()
        for number in range(3):
            (images / name / f'l{number}').symlink_to(images)
    assert len(images_below(images)) == 6
    assert read(root, PrepareOptions()).classes


@pytest.mark.parametrize(
    ('content', 'words'),
    [
        (b'name,r,g,b\n\xff,1,2,3\n', 'cannot be read as text in UTF-8'),
        (b'name,r,g,b\n' + b'x' * 200_000 + b',1,2,3\n', 'is not a table of classes'),
        (b'name,value\na,' + b'9' * 6000, 'is not a table of classes'),
        (b'name,r,g,b\na,999,0,0\n', 'is not a table of classes'),
        (b'name,r,g,b\na\0b,1,2,3\n', r"class 0 has the character '\\x00'"),
        (b'name,r,g,b,id\na,1,2,3,0\nb,,,,1\n', 'has values beside colors, or the same one twice'),
        (b'name,value\na,0\nb,0\n', 'has values beside colors, or the same one twice'),
    ],
)
def test_a_table_of_classes_that_cannot_be_read_is_rejected(content, words, tmp_path):
    root = write_maps(tmp_path / 'data')
    (root / 'classes.csv').write_bytes(content)
    with pytest.raises(UserError, match=words):
        prepare(root, tmp_path / 'index', PrepareOptions(for_segmentor=True, skip_broken=True))


@pytest.mark.parametrize('values', [np.full((64, 64), 40_000, np.uint16), np.zeros((64, 64), 'f4')])
def test_label_maps_of_many_values_need_a_table(values, tmp_path):
    root = write_maps(tmp_path / 'data')
    kind = 'tif' if values.dtype == np.float32 else 'png'
    for path in (root / 'masks').iterdir():
        path.unlink()
        Image.fromarray(values).save(path.with_suffix(f'.{kind}'))
    with pytest.raises(UserError, match=r'40000, and their classes|classes are not known|colors'):
        prepare(root, tmp_path / 'index', MAPS)


def seconds(job, size: int) -> float:
    start = time.process_time()
    job(size)
    return time.process_time() - start


def test_a_long_line_of_numbers_and_a_word_is_no_label():
    assert LINE.match(b'1' + b' .5' * 4)
    assert not LINE.match(b'1' + b' 1234' * 60 + b' car')  # backtracking would take days


def read_xml(folder: Path, size: int) -> None:
    root = write_voc(folder / str(size), 4)
    path = root / 'Annotations' / '0.xml'
    entry = '<object>\n<name>a</name>\n<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax>'
    entry += '<ymax>9</ymax></bndbox>\n</object>\n'
    path.write_text(path.read_text().replace('</annotation>', entry * size + '</annotation>'))
    data = read(root, PrepareOptions())
    assert data.count('train').total() > size


def read_lines(folder: Path, size: int) -> None:
    root = write_yolo(folder / str(size), 4, 2)
    (root / 'labels/train/train_0.txt').write_text('0 0.5 0.5 0.1 0.1\n' * size + 'x\n' * size)
    data = read(root, PrepareOptions())
    assert data.findings.counts[faults.LINE_BROKEN] == size


@pytest.mark.parametrize('job', [read_xml, read_lines])
def test_time_grows_with_the_size_alone(job, tmp_path):
    """Twenty times as much takes less than sixty times as long; squares take 400 times."""
    small = min(seconds(partial(job, tmp_path / name), 1000) for name in ('a', 'b'))
    assert seconds(partial(job, tmp_path / 'large'), 20_000) < 60 * max(small, 0.02)


@pytest.mark.parametrize('kind', ['webp', 'png', 'tif'])
@pytest.mark.parametrize('orientation', [3, 6])
def test_images_that_only_some_programs_rotate_are_rejected_by_all(kind, orientation, tmp_path):
    path = tmp_path / f'x.{kind}'
    save_rotated(path, 30, 40, orientation)
    for reader in (inspect, read_size):
        with pytest.raises(Unreadable, match='EXIF rotates or mirrors it'):
            reader(path)
    with pytest.raises(UserError, match='EXIF rotates or mirrors it'):
        read_image(path)


def test_size_and_pixels_of_a_rotated_image_are_those_of_mmcv(tmp_path):
    path = tmp_path / 'x.jpg'
    save_rotated(path, 30, 40)
    expected = mmcv.imread(str(path)).shape[:2]
    assert read_size(path) == inspect(path).size == read_image(path).shape[:2] == expected
    assert expected == (40, 30)


def test_a_tiff_that_opencv_cannot_decode_is_rejected_by_all(tmp_path):
    path = tmp_path / 'x.tif'
    Image.fromarray(np.zeros((30, 40), 'i4')).save(path)  # 32 bits a pixel
    if cv2.imread(str(path)) is not None:
        pytest.skip('this OpenCV decodes it')
    with pytest.raises(Unreadable, match='OpenCV'):
        inspect(path)
    with pytest.raises(UserError, match='cannot be read as an image'):
        read_image(path)


def test_headers_of_large_datasets_tell_the_same_as_decoding(tmp_path):
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 255, (30, 40, 3), np.uint8)
    for name in ('a.jpg', 'a.png', 'a.bmp', 'a.webp', 'a.tif'):
        Image.fromarray(pixels).save(tmp_path / name)
        whole, header = inspect(tmp_path / name), inspect_header(tmp_path / name)
        assert replace(whole, digest=b'') == replace(header, digest=b''), name
        assert header.digest != inspect_header(other(tmp_path / name, pixels)).digest
    for name in ('a.png', 'a.bmp'):
        path = tmp_path / name
        path.write_bytes(path.read_bytes()[:900])
        with pytest.raises(Unreadable):
            inspect_header(path)
    jpeg = tmp_path / 'a.jpg'
    jpeg.write_bytes(jpeg.read_bytes()[:-20])
    assert inspect_header(jpeg).is_cut
    os.mkfifo(tmp_path / 'pipe.jpg')
    for path in (tmp_path / 'pipe.jpg', tmp_path / 'gone.jpg'):
        with pytest.raises(Unreadable):
            inspect_header(path)


def other(path: Path, pixels: np.ndarray) -> Path:
    """A file of the same format with another pixel."""
    found = path.with_stem('b')
    Image.fromarray(pixels ^ 1).save(found)
    return found


def test_a_large_dataset_is_indexed_by_its_headers(tmp_path, monkeypatch):
    root = write_yolo(tmp_path / 'data')
    sound, _ = prepare(root, tmp_path / 'a', PrepareOptions())
    monkeypatch.setattr('mmeffvit.data.check.MANY', 1)
    data, _ = prepare(root, tmp_path / 'b', PrepareOptions())
    for name in ('train.json', 'val.json'):
        assert (tmp_path / 'a' / name).read_bytes() == (tmp_path / 'b' / name).read_bytes()
    assert sound.findings.counts == data.findings.counts


def test_a_dataset_that_is_opened_again_inspects_changed_images_only(tmp_path, monkeypatch):
    """A row of another file, version or form is not used."""
    root = write_yolo(tmp_path / 'data')
    images = sorted(root.rglob('*.png'))
    for path in images:
        os.utime(path, (1, 1))
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))
    monkeypatch.setattr('mmeffvit.data.index.LEAST', 1)
    looked = []

    def counting(path: Path) -> ImageFacts:
        looked.append(path)
        return inspect(path)

    monkeypatch.setattr('mmeffvit.data.check.inspect', counting)

    def opened() -> list[Path]:
        looked.clear()
        data, _ = prepare(root, tmp_path / 'out', PrepareOptions())
        assert sum(map(len, data.splits.values())) == len(images)
        return sorted(looked)

    assert opened() == images
    first = (tmp_path / 'out' / 'train.json').read_bytes()
    assert opened() == []
    assert (tmp_path / 'out' / 'train.json').read_bytes() == first
    os.utime(images[1], (2, 2))
    images[2].write_bytes(images[2].read_bytes() + b'0')
    os.utime(images[2], (1, 1))
    assert opened() == images[1:3]
    (index,) = (tmp_path / 'cache').rglob('*.json')
    text = index.read_text()
    index.write_text(text.replace('"RGB"', '7', 1))
    assert len(opened()) == 1
    index.write_text(text.replace(__version__, '0.0.0'))
    assert opened() == images
    index.write_text('[')
    assert opened() == images


def test_cycles_are_not_searched_while_a_dataset_is_read(tmp_path):
    states = []

    def reader(path: Path, options: PrepareOptions) -> DataSet:
        states.append(gc.isenabled())
        return read(path, options)

    prepare(write_yolo(tmp_path / 'data'), tmp_path / 'out', PrepareOptions(), reader)
    assert states == [False]
    assert gc.isenabled()
    with pytest.raises(UserError, match='does not exist'):
        prepare(tmp_path / 'gone', tmp_path / 'out', PrepareOptions())
    assert gc.isenabled()


def test_no_class_loses_its_last_training_image_and_each_of_two_has_one_to_validate(tmp_path):
    for seed in range(10):
        pictures = [Picture(Path(f'{i:02}'), [Object(0, BOX, '')]) for i in range(17)]
        pictures += [Picture(Path('one'), [Object(1, BOX, '')])] + [
            Picture(Path(f'{i}'), [Object(2, BOX, '')]) for i in 'ab'
        ]
        data = DataSet('', tmp_path, ['many', 'one', 'two'], {'train': pictures}, Findings())
        split_off(data, PrepareOptions(seed=seed))
        assert len(data.splits['val']) == 4
        assert (data.count('train')[1], data.count('val')[1]) == (1, 0)
        assert (data.count('train')[2], data.count('val')[2]) == (1, 1)


@pytest.mark.parametrize('fraction', [0.2, 0.95])
def test_copies_of_an_image_are_not_split_and_some_images_are_left_to_train_on(fraction, tmp_path):
    pictures = [
        Picture(Path(f'{i}'), [Object(0, BOX, '')], digest=b'%d' % (i // 2)) for i in range(10)
    ]
    data = DataSet('', tmp_path, ['a'], {'train': pictures}, Findings())
    split_off(data, PrepareOptions(fraction=fraction))
    train, val = ({p.digest for p in data.splits[name]} for name in ('train', 'val'))
    assert len(train | val) == 5
    assert all((train, val))
    assert not train & val
    same = DataSet('', tmp_path, ['a'], {'train': pictures[:2]}, Findings())
    with pytest.raises(UserError, match='has 1 distinct image; training needs two'):
        split_off(same, PrepareOptions())


def test_a_cache_that_may_not_be_entered_is_not_needed(tmp_path, monkeypatch):
    def deny(path: Path) -> bool:
        raise PermissionError(path)

    monkeypatch.setattr(Path, 'is_file', deny)
    assert ImageIndex(tmp_path, inspect, LEAST).known == {}
