"""Broken datasets: each fault is named with its file, its line and its fix before training.

Those that a config's data can have as well are in tests/train/checks/test_data.py.
"""

import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from mmeffvit.data import faults
from mmeffvit.data.faults import Fault
from mmeffvit.data.prepare import PrepareOptions, prepare
from mmeffvit.errors import UserError
from tests.data.sets import edit_json, files_in, write_maps, write_roboflow, write_voc, write_yolo
from tests.utils.odd_images import save_rotated

IMAGE = Path('images/train/train_0.png')
LABELS = Path('labels/train/train_0.txt')


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


def edit_coco(root: Path, change: Callable[[dict], object]) -> None:
    edit_json(root / 'train' / '_annotations.coco.json', change)


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def rotate(root: Path) -> None:
    """A wide image on its side, annotated as wide as it is stored."""
    save_rotated(root / 'JPEGImages' / '0.jpg', 64, 96)
    replace(root / 'Annotations' / '0.xml', '<width>64', '<width>96')


def double_names(root: Path) -> None:
    """Two images of one name in sub-folders, and one file of labels for both."""
    for name in ('a', 'b'):
        (root / 'images' / 'train' / name).mkdir()
        shutil.copy(root / IMAGE, root / 'images' / 'train' / name / 'twin.png')
    (root / 'labels' / 'train' / 'twin.txt').write_text('0 0.5 0.5 0.2 0.2\n')


def rename_undecodable(root: Path) -> None:
    for path in (root / IMAGE, root / LABELS):
        raw = bytes(path.with_name('caf')) + b'\xe9' + path.suffix.encode()
        path.rename(raw.decode(errors='surrogateescape'))


DEFAULTS = PrepareOptions()


@dataclass
class Case:
    """A fault, its cause, and what the message must contain.

    Args:
        write: Writes the dataset that is broken.
        breaks: Breaks it.
        fault: Its kind.
        place: What the finding names, a regular expression.
        images: Images left with ``--skip-broken``; None if nothing can be skipped.
        options: How it is read.
    """

    write: Callable[[Path], Path]
    breaks: Callable[[Path], object]
    fault: Fault
    place: str
    images: int | None
    options: PrepareOptions = DEFAULTS


MAPS = PrepareOptions(for_segmentor=True)
CASES = {
    'class id out of range': Case(
        write_yolo, lambda r: append(r / LABELS, '9 0.5 0.5 0.1 0.1\n'),
        faults.CLASS_RANGE, r'train_0\.txt, line \d: 9, of 4 names', 8),
    'box outside 0..1': Case(
        write_yolo, lambda r: (r / LABELS).write_text('0 0.95 0.5 0.4 0.2\n'),
        faults.BOX_OUTSIDE, r'train_0\.txt, line 1: .* in 64 x 64 pixels', 8),
    'pixels in YOLO': Case(
        write_yolo, lambda r: (r / LABELS).write_text('0 0.5 0.5 0.2 0.2\n1 32 30 20 10\n'),
        faults.BOX_PIXELS, r'train_0\.txt, line 2: 1 32 30 20 10', 8),
    'line cut off': Case(
        write_yolo, lambda r: append(r / LABELS, '0 0.5 0.5\n'),
        faults.LINE_BROKEN, r'train_0\.txt, line \d: 0 0\.5 0\.5', 8),
    'not a number': Case(
        write_yolo, lambda r: (r / LABELS).write_text('0 nan 0.5 0.1 0.1\n'),
        faults.LINE_BROKEN, r'train_0\.txt, line 1', 8),
    'missing image, YOLO': Case(
        write_yolo, lambda r: (r / IMAGE).unlink(),
        faults.IMAGE_MISSING, r'the image of .*labels/train/train_0\.txt', 8),
    'labels of another folder': Case(
        write_yolo, lambda r: (r / LABELS).rename(r / 'labels' / 'val' / LABELS.name),
        faults.IMAGE_MISSING, r'train_0\.txt: its image should not be at .*train_0\.png', 8),
    'left and right swapped': Case(
        write_voc, lambda r: replace(r / 'Annotations/0.xml', '<xmin>', '<xmin>9'),
        faults.RECORD_BROKEN, r'0\.xml, line \d: 9', 7),
    'missing image, VOC': Case(
        write_voc, lambda r: (r / 'JPEGImages' / '0.jpg').unlink(),
        faults.IMAGE_MISSING, r'Annotations/0\.xml: 0\.jpg', 7),
    'duplicate names in sub-folders': Case(
        write_yolo, double_names,
        faults.IMAGE_AMBIGUOUS, r'twin\.txt: .*a/twin\.png, .*b/twin\.png', 11),
    'two images of one name': Case(
        write_yolo,
        lambda r: cv2.imwrite(str(r / 'images/train/train_0.bmp'), np.zeros((64, 64, 3))),
        faults.LABELS_SHARED, r'train_0\.txt: .*train_0\.(bmp|png), .*train_0\.(bmp|png)', 8),
    'two images of one label map': Case(
        write_maps, lambda r: cv2.imwrite(str(r / 'images/0.png'), np.zeros((64, 64, 3), np.uint8)),
        faults.LABELS_SHARED, r'masks/0\.png: .*0\.png, and another image', 6, MAPS),
    'labels that were not fetched': Case(
        write_yolo, lambda r: ((r / LABELS).unlink(), (r / LABELS).symlink_to('../.git/annex/1')),
        faults.LINK_BROKEN, r'train_0\.txt: .*train_0\.txt is a broken link', 8),
    'EXIF after annotating': Case(
        write_voc, rotate, faults.IMAGE_ROTATED, r'0\.jpg is 64 x 96, annotated as 96 x 64', 7),
    '16 bits': Case(
        write_yolo,
        lambda r: cv2.imwrite(str(r / IMAGE), np.full((64, 64, 3), 900, np.uint16)),
        faults.IMAGE_DEEP, r'train_0\.png', 8),
    'CMYK': Case(
        write_voc,
        lambda r: Image.new('CMYK', (64, 64)).save(r / 'JPEGImages' / '0.jpg'),
        faults.IMAGE_CMYK, r'0\.jpg', 7),
    'width and height exchanged': Case(
        write_roboflow,
        lambda r: (
            cv2.imwrite(str(r / 'train' / '0_png.rf.0a1b.png'), np.zeros((64, 96, 3), np.uint8)),
            edit_coco(r, lambda c: (
                c['images'][0].update(height=96, width=64),
                [a.pop('segmentation') for a in c['annotations']],
            )),
        ),
        faults.SIZE_SWAPPED, r'is 96 x 64, annotated as 64 x 96', 8),
    'boxes where masks are needed': Case(
        write_roboflow,
        lambda r: edit_coco(r, lambda c: c['annotations'][0].pop('segmentation')),
        faults.MASK_ABSENT, r'annotation 0', 8, PrepareOptions(needs_masks=True)),
    'training and validation overlap': Case(
        write_yolo, lambda r: shutil.copy(r / IMAGE, r / 'images/val/val_0.png'),
        faults.OVERLAP, r'val_0\.png \(val\) is .*train_0\.png \(train\)', 8),
    'labels in Latin-1': Case(
        write_yolo, lambda r: (r / LABELS).write_bytes(b'0 0.5 0.5 0.1 0.1\n# caf\xe9\n'),
        faults.NOT_UTF8, r'train_0\.txt, line 2', 8),
    'names that are not UTF-8': Case(
        write_yolo, rename_undecodable, faults.NAME_BROKEN, r'caf\\udce9\.png', 8),
}  # fmt: skip


@pytest.mark.parametrize('name', CASES)
def test_a_fault_is_named_with_its_place_and_fix_and_skipped_only_when_told(name, tmp_path, capsys):
    case = CASES[name]
    root = case.write(tmp_path / 'data')
    case.breaks(root)
    before = files_in(root)
    with pytest.raises(UserError, match=re.escape(case.fault.what)):
        prepare(root, tmp_path / 'index', case.options)
    said = capsys.readouterr().out
    assert re.search(rf'ERROR: {re.escape(case.fault.what)} \(1\)\n    .*{case.place}', said), said
    assert f'  fix: {case.fault.fix}' in said
    assert said.count('ERROR') == 1
    assert not list(tmp_path.glob('index/*.json'))  # nothing could be trained on
    skipping = PrepareOptions(**{**vars(case.options), 'skip_broken': True})
    _, splits = prepare(root, tmp_path / 'index', skipping)
    said = capsys.readouterr().out
    assert f'left out: 1 {case.fault.left_out} ({case.fault.what})' in said
    assert sum(split.count for split in splits.values()) == case.images
    assert files_in(root) == before


NOTES = {
    'one box without width': (
        lambda r: append(r / LABELS, '0 0.5 0.5 0 0.2\n'),
        faults.BOX_EMPTY, r'train_0\.txt, line \d.*'),
    'a box of which less than a pixel is inside': (
        lambda r: append(r / LABELS, '0 1.01 0.5 0.03 0.2\n'),
        faults.BOX_EMPTY, r'train_0\.txt, line \d: 63\.7.*'),
    'a line twice': (
        lambda r: append(r / LABELS, 2 * '0 0.5 0.5 0.1 0.2\n'),
        faults.LINE_DUPLICATE, r'train_0\.txt, line \d.*'),
    'a box two pixels outside': (
        lambda r: append(r / LABELS, '0 0.5 0.5 0.1 1.06\n'),
        faults.BOX_CLIPPED, r'train_0\.txt, line \d: .* 65\.\d in 64 x 64 pixels'),
    'empty labels': (
        lambda r: (r / LABELS).write_text(''), faults.WITHOUT_OBJECTS, r'train_0\.png'),
    'an image on its head': (
        lambda r: (
            (r / IMAGE).unlink(),
            save_rotated((r / IMAGE).with_suffix('.jpg'), 64, 64, orientation=3),
        ),
        faults.EXIF_UPRIGHT, r'train_0\.jpg'),
    'a category without objects': (
        lambda r: replace(r / 'data.yaml', '  3: star', '  3: star\n  4: moon'),
        faults.CLASS_EMPTY, "'moon'"),
}  # fmt: skip


@pytest.mark.parametrize('name', NOTES)
def test_what_can_be_read_all_the_same_is_noted(name, tmp_path, capsys):
    breaks, note, place = NOTES[name]
    root = write_yolo(tmp_path / 'data')
    breaks(root)
    _, splits = prepare(root, tmp_path / 'index', PrepareOptions())
    said = capsys.readouterr().out
    assert re.search(rf'note: {re.escape(note.what)} \(1\)\n    .*{place}\n  fix: ', said), said
    assert splits['train'].count == 6


@pytest.mark.skipif(shutil.which('iconv') is None, reason='without iconv')
def test_the_fix_of_files_that_are_not_utf8_is_a_command(tmp_path):
    (tmp_path / 'OLD').write_bytes(b'caf\xe9')
    command = faults.NOT_UTF8.fix.split('`')[1]
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    assert (tmp_path / 'NEW').read_text('utf-8') == 'caf\xe9'


def test_text_files_of_windows_are_read(tmp_path):
    root = write_yolo(tmp_path / 'data')
    expected, _ = prepare(root, tmp_path / 'a', PrepareOptions())
    for path in root.rglob('*.txt'):
        path.write_bytes(b'\xef\xbb\xbf' + path.read_bytes().replace(b'\n', b'\r\n'))
    data, _ = prepare(root, tmp_path / 'b', PrepareOptions())
    assert data.count('train') == expected.count('train')
    assert data.findings.counts == expected.findings.counts


def test_images_with_broken_objects_are_skipped_unless_they_are_kept_partly(tmp_path, capsys):
    root = write_yolo(tmp_path / 'data')
    (root / LABELS).write_text('0 0.5 0.5 0.2 0.2\n9 0.5 0.5 0.1 0.1\n')
    (root / 'labels' / 'train' / 'train_1.txt').write_text('9 0.5 0.5 0.1 0.1\n')
    skip = dict(skip_broken=True)
    data, splits = prepare(root, tmp_path / 'a', PrepareOptions(**skip))
    assert splits['train'].count == 4
    assert 'images with broken objects: 2' in capsys.readouterr().out
    assert faults.WITHOUT_OBJECTS not in data.findings.counts
    data, splits = prepare(root, tmp_path / 'b', PrepareOptions(**skip, keep_partly_broken=True))
    assert splits['train'].count == 5
    assert 'images with broken objects without other objects: 1' in capsys.readouterr().out
    assert all(picture.objects for picture in data.splits['train'])


def test_every_finding_is_in_the_file_and_the_screen_shows_some(tmp_path, capsys):
    root = write_yolo(tmp_path / 'data', train=9)
    for number in range(9):
        append(root / 'labels' / 'train' / f'train_{number}.txt', '7 0.5 0.5 0.1 0.1\n')
    with pytest.raises(UserError, match=r'class numbers without a name \(9\); --skip-broken skips'):
        prepare(root, tmp_path / 'index', PrepareOptions())
    assert 'and 4 more' in capsys.readouterr().out
    assert (tmp_path / 'index' / 'faults.txt').read_text().count('7, of 4 names') == 9


def test_ids_that_are_there_twice_cannot_be_skipped(tmp_path):
    root = write_roboflow(tmp_path / 'data')
    edit_coco(root, lambda content: content['images'][1].update(id=0))
    with pytest.raises(UserError, match=r'duplicate image ids \(1\); these cannot be skipped'):
        prepare(root, tmp_path / 'index', PrepareOptions(skip_broken=True))
