"""Datasets in the layouts of COCO, PASCAL VOC and ADE20K: what is missing, odd or damaged.

Every damage comes with words of the fault that it is, which training and the check both name.
"""

import json
import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from PIL import Image

from tests.hostile.commands import SMALL, Job, command, in_turn, needs, put, train
from tests.hostile.damage import damaged, install_ghostscript, postscript
from tests.hostile.judge import Case
from tests.hostile.world import SIDE, TRAIN, VAL, XML, World, dice
from tests.utils.odd_images import jpeg_of


def cases(world: World, seed: int, more: int) -> Iterator[Case]:
    yield from coco_cases(world, seed, more)
    yield from voc_cases(world, seed, more)
    yield from ade_cases(world, seed, more)


def check(config: str, *arguments: object) -> Job:
    """The check of a config's datasets."""
    return command('check', config, '--no-model', *arguments)


def of_layout(
    group: str, config: str, ready: Job, options: tuple[str, ...], bad: dict[str, tuple[Job, str]],
    tolerated: set[str], good: dict[str, Job],
) -> Iterator[Case]:  # fmt: skip
    """Every damage for training and for the check, which must also accept what is good.

    Args:
        group: Row of the table.
        config: Of the dataset.
        ready: Puts config and data into a folder.
        options: That make training short.
        bad: Damage and words of its fault; the first is the control.
        tolerated: Those that training can do without.
        good: Changes that are none; the first is the control.
    """
    doors = {'train': train(*options, config=config), 'check': check(config)}
    for how, job in doors.items():
        is_check = how == 'check'
        for what, change in good.items():
            yield Case(group, how, f'good: {what}', job, in_turn(ready, change), 'work',
                       says=('nothing is broken',) if is_check else ('evaluate the best',),
                       is_control=change is next(iter(good.values())))  # fmt: skip
        for what, (damage, word) in bad.items():
            yield Case(group, how, what, job, in_turn(ready, damage),
                       'either' if what in tolerated else 'reject', codes=(1, 2),
                       says=('ERROR', word) if is_check else (word,),
                       is_control=damage is next(iter(bad.values()))[0])  # fmt: skip


def edit(name: str, change: Callable[[Any], Any]) -> Job:
    """Change a JSON file of the detector's data."""

    def prepare(folder: Path) -> None:
        path = folder / 'shapes' / name
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))

    return prepare


def changed(where: str, split: str = TRAIN, **values: Any) -> Job:
    """Other values in the first record of a list."""
    return edit(split, lambda content: content[where][0].update(values))


def without(where: str, key: str) -> Job:
    return edit(TRAIN, lambda content: content[where][0].pop(key))


annotated, pictured, mask_of = (
    partial(changed, 'annotations'), partial(changed, 'images'),
    lambda mask, split=TRAIN: changed('annotations', split, segmentation=mask),
)  # fmt: skip


def runs(counts: Any, side: int = SIDE) -> Job:
    return mask_of(dict(size=[side, side], counts=counts))


def remove(name: str) -> Job:
    return lambda folder: (folder / name).unlink()


def replace(name: str, make: Callable[[Path], Any]) -> Job:
    """Something else in the place of a file."""
    return in_turn(remove(name), lambda folder: make(folder / name))


PICTURE = 'shapes/train2017/000001.png'
NAME = Path(PICTURE).name
FILE = f'shapes/{TRAIN}'
FAR = 'annotation 1: a polygon with a point far outside of the image'
NOT_REGULAR = 'not a regular file'
BAD_COCO: dict[str, tuple[Job, str]] = {
    'cut': (put(FILE, b'{"images": ['), f'{FILE} is not valid JSON'),
    'empty': (put(FILE, b''), f'{FILE} is not valid JSON'),
    'no text': (put(FILE, b'\xff\xfe\xff{}'), f'{FILE} is not valid JSON'),
    'deep': (put(FILE, b'[' * 200_000), 'nested too deeply'),
    'deep objects': (put(FILE, b'{"a":' * 200_000), 'nested too deeply'),
    'a number': (put(FILE, b'5'), f'{FILE} has no list'),
    'a list': (put(FILE, b'[]'), f'{FILE} has no list'),
    'a number of 100,000 digits': (put(FILE, b'{"images": ' + b'9' * 100_000 + b'}'), 'digits'),
    'no images': (edit(TRAIN, lambda c: c.pop('images')), 'no list of images'),
    'no annotations': (edit(TRAIN, lambda c: c.pop('annotations')), 'no list of annotations'),
    'no categories': (edit(TRAIN, lambda c: c.pop('categories')), 'no list of categories'),
    'images are an object': (edit(TRAIN, lambda c: c.update(images={})), 'no list of images'),
    'images are numbers': (edit(TRAIN, lambda c: c.update(images=[1, 2])), '1 among images'),
    'no file name': (without('images', 'file_name'), 'file_name None in images'),
    'file name is a number': (pictured(file_name=5), 'file_name 5 in images'),
    'file name has a zero byte': (pictured(file_name='\0'), r"file_name '\x00' in images"),
    'file name is long': (pictured(file_name='n' * 999), 'nnn'),
    'file name is a device': (pictured(file_name='/dev/zero'), '/dev/zero'),
    'file name is no text': (pictured(file_name='\udcff'), r"file_name '\udcff' in images"),
    'huge width': (pictured(width=10**9), 'width 1000000000 in images'),
    'huge sides': (pictured(width=2**17, height=2**17), 'height 131072, width 131072'),
    'width is a text': (pictured(width='64'), "width '64' in images"),
    'one image id twice': (
        edit(TRAIN, lambda c: c['images'].append(dict(c['images'][0]))), 'duplicate image ids'),
    'image id is a list': (pictured(id=[1]), 'id [1] in images'),
    'image id is huge': (pictured(id=10**30), f'id {10**30} in images'),
    'one id twice': (edit(TRAIN, lambda c: c['annotations'].append(dict(c['annotations'][0]))),
                     'duplicate annotation ids'),
    'id is a list': (annotated(id=[]), 'id [] in annotations'),
    'no image id': (without('annotations', 'image_id'), 'image_id None in annotations'),
    'no category id': (without('annotations', 'category_id'), 'category_id None in annotations'),
    'neither box nor image': (
        in_turn(annotated(image_id=999), without('annotations', 'bbox')),
        'bbox None in annotations'),
    'category is a list': (annotated(category_id=[1]), 'category_id [1] in annotations'),
    'box of three': (annotated(bbox=[1, 2, 3]), 'bbox [1, 2, 3] in annotations'),
    'box of texts': (annotated(bbox=['a', 'b', 'c', 'd']), "bbox ['a', 'b', 'c', 'd']"),
    'box of NaN': (annotated(bbox=[float('nan')] * 4), 'bbox [nan, nan, nan, nan]'),
    'box of 1e308': (annotated(bbox=[1e308] * 4), 'bbox [1e+308'),
    'box far away': (annotated(bbox=[0, 0, 1e9, 1e9]), 'boxes that exceed their image'),
    'polygon of 1e9': (mask_of([[0, 0, 1e9, 0, 9, 1e9]]), FAR),
    'polygon of -1e9': (mask_of([[0, 0, -1e9, 0, 9, -1e9]]), FAR),
    'polygon of infinity': (mask_of([[float('inf')] * 6]), FAR),
    'polygon of NaN': (mask_of([[float('nan')] * 6]), FAR),
    'polygon of two numbers': (mask_of([[1, 1]]), 'a polygon without three points'),
    'polygon of texts': (mask_of([['a'] * 6]), 'a polygon that is not a list of numbers'),
    'polygon is a number': (mask_of(5), 'neither a list nor a dict: 5'),
    'polygon of nothing': (mask_of([]), 'objects without a mask'),
    'deep polygon': (mask_of([[[[[1]]]]]), 'a polygon that is not a list of numbers'),
    'runs are negative': (runs([-5, 9]), 'run lengths that do not fill the image'),
    'runs are longer': (runs([0, 10**9]), 'run lengths that do not fill the image'),
    'runs of another size': (runs([0, 81], 9), 'annotation 1: [9, 9]'),
    'runs of a huge size': (runs('0', 10**6), 'annotation 1: [1000000, 1000000]'),
    'code is odd': (runs('\x7f' * 99), 'run lengths that are truncated or not a COCO string'),
    'code is no text': (runs('\ud800'), r"not run lengths: '\ud800'"),
    'no category of a class': (edit(TRAIN, lambda c: c['categories'].pop()), 'categor'),
    'no category name': (without('categories', 'name'), 'name None in categories'),
    'category name is a list': (changed('categories', name=[]), 'name [] in categories'),
    'two categories of one id': (
        edit(TRAIN, lambda c: c['categories'][1].update(id=1)), 'duplicate category ids'),
    'no annotation file': (remove(FILE), f"'{FILE}' does not exist"),
    'annotation file is a folder': (replace(FILE, Path.mkdir), f"'{FILE}' is {NOT_REGULAR}"),
    'annotation file is a pipe': (replace(FILE, os.mkfifo), f"'{FILE}' is {NOT_REGULAR}"),
    'annotation file is a device': (
        replace(FILE, lambda p: p.symlink_to('/dev/zero')), f"'{FILE}' is {NOT_REGULAR}"),
    'annotation file is a loop': (
        replace(FILE, lambda p: p.symlink_to(p.name)), f"'{FILE}' does not exist"),
    'annotation file is closed': (lambda f: (f / FILE).chmod(0), f"'{FILE}' cannot be read"),
    'validation is cut': (put(f'shapes/{VAL}', b'{'), f'{VAL} is not valid JSON'),
    'validation polygon of 1e9': (mask_of([[0, 0, 1e9, 0, 9, 1e9]], VAL), FAR),
    'no image': (remove(PICTURE), NAME),
    'image is PostScript': (in_turn(install_ghostscript, postscript(PICTURE)), PICTURE),
    'image is empty': (put(PICTURE, b''), PICTURE),
    'image is none': (put(PICTURE, b'not an image'), PICTURE),
    'image is cut': (
        lambda f: (f / PICTURE).write_bytes((f / PICTURE).read_bytes()[:200]), PICTURE),
    'image is a folder': (replace(PICTURE, Path.mkdir), NAME),
    'image is a pipe': (replace(PICTURE, os.mkfifo), NAME),
    'image is a device': (replace(PICTURE, lambda p: p.symlink_to('/dev/zero')), NAME),
    'image is a loop': (replace(PICTURE, lambda p: p.symlink_to(p.name)), PICTURE),
    'image is closed': (lambda f: (f / PICTURE).chmod(0), PICTURE),
    'image is giant': (put(PICTURE, jpeg_of(20_000, 8_000)), '20,000 x 8,000 pixels'),
    'image is of 1 pixel': (lambda f: Image.new('RGB', (1, 1)).save(f / PICTURE), PICTURE),
}  # fmt: skip
# what training can do without
TOLERATED = {'image is of 1 pixel', 'polygon of two numbers'}
GOOD_COCO: dict[str, Job] = {
    'as it is': lambda f: None,
    'no info': in_turn(*(edit(n, lambda c: c.pop('info')) for n in (TRAIN, VAL))),
    'no crowd flags': edit(VAL, lambda c: [a.pop('iscrowd') for a in c['annotations']]),
    'more keys': edit(TRAIN, lambda c: c.update(licenses=[{'\x1b[2J': [[[]]]}])),
    'gray image': lambda f: Image.open(f / PICTURE).convert('L').save(f / PICTURE),
    'an image without annotations': edit(
        TRAIN, lambda c: c.update(annotations=[a for a in c['annotations'] if a['image_id']])
    ),
}  # fmt: skip
VALIDATE = (*SMALL, 'train_cfg.val_interval=1', 'model.test_cfg.rcnn.score_thr=0.0')


def coco_cases(world: World, seed: int, more: int) -> Iterator[Case]:
    """Also random bytes; tests/train/checks/test_run.py has random values."""
    ready = needs(world, 'detector.py', 'shapes')
    of = partial(of_layout, config='detector.py', ready=ready, options=VALIDATE)
    yield from of('data: COCO', bad=BAD_COCO, tolerated=TOLERATED, good=GOOD_COCO)
    damages: dict[str, tuple[Job, str]] = {'cut': BAD_COCO['cut']}
    for number in range(3 * more):
        damages[f'bytes {number}'] = spoil(FILE, seed + number), FILE
        damages[f'pixels {number}'] = spoil(PICTURE, seed + number), PICTURE
    yield from of('data: random COCO', bad=damages, tolerated=set(damages) - {'cut'},
                  good={'as it is': lambda f: None})  # fmt: skip


def spoil(name: str, number: int) -> Job:
    def prepare(folder: Path) -> None:
        path = folder / name
        path.write_bytes(damaged(path.read_bytes(), dice(name, number)))

    return prepare


FIRST_XML = 'voc/Annotations/000001.xml'
LIST = 'voc/ImageSets/Main/trainval.txt'
FIRST_JPG = 'voc/JPEGImages/000001.jpg'
GOOD_XML = XML.format(name='000001')


def xml(old: str, new: str) -> Job:
    """Another text in the place of a pattern, which is there."""
    assert re.search(old, GOOD_XML), old
    return put(FIRST_XML, re.sub(old, lambda _: new, GOOD_XML).encode('utf-8', 'ignore'))


LAUGHS = (
    '<!DOCTYPE a [<!ENTITY a0 "ha">'
    + ''.join(f'<!ENTITY a{i + 1} "{f"&a{i};" * 10}">' for i in range(12))
    + ']>'
)
BAD_VOC: dict[str, tuple[Job, str]] = {
    'no XML': (put(FIRST_XML, b'no xml'), f'{FIRST_XML}: syntax error'),
    'empty': (put(FIRST_XML, b''), f'{FIRST_XML}: no element found'),
    'cut': (put(FIRST_XML, XML.encode()[:100]), f'{FIRST_XML}: unclosed token'),
    'no text': (put(FIRST_XML, b'\xff\xfe\x00'), f'{FIRST_XML}, line 1'),
    'unknown encoding': (
        put(FIRST_XML, b'<?xml version="1.0" encoding="x"?><a/>'), 'unknown encoding: x'),
    'another root': (put(FIRST_XML, b'<a><object/></a>'), 'an object without name'),
    'width is a text': (xml('<width>64', '<width>wide'), "size with width 'wide'"),
    'width is huge': (xml('<width>64', '<width>99999999999'), "size with width '99999999999'"),
    'no name': (xml('<name>circle</name>', ''), 'an object without name'),
    'no box': (xml('bndbox', 'box'), 'an object without bndbox'),
    'no side': (xml('<xmin>5</xmin>', ''), 'bndbox with xmin None'),
    'side is a text': (xml('<xmin>5', '<xmin>five'), "bndbox with xmin 'five'"),
    'side is empty': (xml('<xmin>5', '<xmin>'), "bndbox with xmin ''"),
    'side is NaN': (xml('<xmin>5', '<xmin>nan'), "bndbox with xmin 'nan'"),
    'side is huge': (xml('<xmax>40', '<xmax>1e300'), "bndbox with xmax '1e300'"),
    'deep': (put(FIRST_XML, b'<a>' * 100_000), FIRST_XML),
    'entities that grow': (
        put(FIRST_XML, (LAUGHS + GOOD_XML.replace('circle', '&a12;')).encode()), 'amplification'),
    'entity of a file': (
        put(FIRST_XML, b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
            + GOOD_XML.replace('circle', '&x;').encode()), 'undefined entity &x;'),
    'is a pipe': (replace(FIRST_XML, os.mkfifo), f"'{FIRST_XML}' is {NOT_REGULAR}"),
    'is a device': (
        replace(FIRST_XML, lambda p: p.symlink_to('/dev/zero')), f"'{FIRST_XML}' is {NOT_REGULAR}"),
    'is a folder': (replace(FIRST_XML, Path.mkdir), f"'{FIRST_XML}' is {NOT_REGULAR}"),
    'is closed': (lambda f: (f / FIRST_XML).chmod(0), f"'{FIRST_XML}' cannot be read"),
    'list names none': (put(LIST, b'nobody\n'), "nobody.xml' does not exist"),
    'list is empty': (put(LIST, b''), 'datasets without images'),
    'list is no text': (put(LIST, b'\xff\xfe\n'), LIST),
    'list leads elsewhere': (put(LIST, b'../../../../etc/passwd\n'), "../../../../etc/passwd.xml'"),
    'list has a zero byte': (put(LIST, b'a\0b\n'), 'embedded null byte'),
    'list is a pipe': (replace(LIST, os.mkfifo), LIST),
    'list is a device': (replace(LIST, lambda p: p.symlink_to('/dev/zero')), LIST),
    'image is a pipe': (replace(FIRST_JPG, os.mkfifo), FIRST_JPG),
    'image is none': (put(FIRST_JPG, b'none'), FIRST_JPG),
    'image is PostScript': (in_turn(install_ghostscript, postscript(FIRST_JPG)), FIRST_JPG),
    'no image': (remove(FIRST_JPG), FIRST_JPG),
}  # fmt: skip


def voc_cases(world: World, seed: int, more: int) -> Iterator[Case]:
    of = partial(of_layout, config='voc.py', ready=needs(world, 'voc.py', 'voc', 'detector.py'),
                 options=(*SMALL, 'train_cfg.val_interval=1'))  # fmt: skip
    good = {'as it is': lambda f: None, 'no size': xml('<size>.*</size>', '')}
    yield from of('data: VOC', bad=BAD_VOC, tolerated=set(), good=good)
    damages = {f'{number}': (spoil(FIRST_XML, seed + number), FIRST_XML)
               for number in range(4 * more)}  # fmt: skip
    yield from of('data: random VOC', bad={'no XML': BAD_VOC['no XML'], **damages}, good=good,
                  tolerated=set(damages))  # fmt: skip


LABELS = 'ade/annotations/training/ADE_train_00000001.png'
PHOTO = 'ade/images/training/ADE_train_00000001.jpg'
PAIR = 'ADE_train_00000001'
BAD_ADE: dict[str, tuple[Job, str]] = {
    'no label map': (remove(LABELS), LABELS),
    'label map is empty': (put(LABELS, b''), LABELS),
    'label map is PostScript': (in_turn(install_ghostscript, postscript(LABELS)), LABELS),
    'label map is none': (put(LABELS, b'no image'), LABELS),
    'label map is cut': (
        lambda f: (f / LABELS).write_bytes((f / LABELS).read_bytes()[:60]), LABELS),
    'label map of another size': (lambda f: Image.new('L', (9, 9)).save(f / LABELS), LABELS),
    'label map in color': (lambda f: Image.new('RGB', (64, 48), (9, 1, 1)).save(f / LABELS),
                           'channels'),
    'label map of 16 bits': (
        lambda f: Image.new('I;16', (64, 48), 60_000).save(f / LABELS), '60000'),
    'label map is a pipe': (replace(LABELS, os.mkfifo), LABELS),
    'label map is a folder': (replace(LABELS, Path.mkdir), LABELS),
    'label map is a loop': (replace(LABELS, lambda p: p.symlink_to(p.name)), LABELS),
    'image is empty': (put(PHOTO, b''), PHOTO),
    'image is PostScript': (in_turn(install_ghostscript, postscript(PHOTO)), PHOTO),
    'image is a pipe': (replace(PHOTO, os.mkfifo), PAIR),
    'image is a device': (replace(PHOTO, lambda p: p.symlink_to('/dev/zero')), PAIR),
    'image is closed': (lambda f: (f / PHOTO).chmod(0), PHOTO),
    'no images': (
        lambda f: (f / 'ade/images/training').rename(f / 'ade/images/other'),
        "folder 'ade/images/training' does not exist"),
}  # fmt: skip


def ade_cases(world: World, seed: int, more: int) -> Iterator[Case]:
    of = partial(of_layout, config='segmentor.py', ready=needs(world, 'segmentor.py', 'ade'),
                 options=('train_cfg.max_iters=2',), good={'as it is': lambda f: None})  # fmt: skip
    yield from of('data: ADE20K', bad=BAD_ADE, tolerated={'label map of 16 bits'})
    damages = {f'{number}': (spoil((LABELS, PHOTO)[number % 2], seed + number), PAIR)
               for number in range(2 * more)}  # fmt: skip
    yield from of('data: random ADE20K', bad={'no label map': BAD_ADE['no label map'], **damages},
                  tolerated=set(damages))  # fmt: skip
