"""Datasets in the layouts of COCO, PASCAL VOC and ADE20K: what is missing, odd or damaged."""

import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from PIL import Image

from tests.hostile.commands import SMALL, command, needs, put, train
from tests.hostile.damage import damaged, mutate_json
from tests.hostile.judge import Case
from tests.hostile.world import SIDE, TRAIN, VAL, XML, World, dice


def cases(world: World, seed: int, more: int) -> Iterator[Case]:
    yield from coco_cases(world, more)
    yield from coco_random_cases(world, seed, more)
    yield from voc_cases(world, seed, more)
    yield from ade_cases(world, seed, more)


def check(config: str, *arguments: object) -> Callable[[Path], None]:
    """The check of a config's datasets."""
    return command('check', config, '--no-model', *arguments)


def edit(name: str, change: Callable[[Any], Any]) -> Callable[[Path], None]:
    """Change a JSON file of the detector's data; what ``change`` returns, if that, replaces it."""

    def prepare(folder: Path) -> None:
        path = folder / 'shapes' / name
        content = json.loads(path.read_text())
        result = change(content)
        path.write_text(json.dumps(content if result is None else result))

    return prepare


def remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def replace(name: str, make: Callable[[Path], Any]) -> Callable[[Path], None]:
    """Something else in the place of a file."""

    def prepare(folder: Path) -> None:
        (folder / name).unlink()
        make(folder / name)

    return prepare


def first(content: Any, where: str = 'annotations') -> dict[str, Any]:
    return content[where][0]


PICTURE = 'shapes/train2017/000001.png'
BAD_COCO: dict[str, Callable[[Path], Any]] = {
    'empty': put(f'shapes/{TRAIN}', b''),
    'cut': put(f'shapes/{TRAIN}', b'{"images": ['),
    'no text': put(f'shapes/{TRAIN}', b'\xff\xfe\xff{}'),
    'deep': put(f'shapes/{TRAIN}', b'[' * 200_000),
    'deep objects': put(f'shapes/{TRAIN}', b'{"a":' * 200_000),
    'a number': put(f'shapes/{TRAIN}', b'5'),
    'a list': put(f'shapes/{TRAIN}', b'[]'),
    'a number of 100,000 digits': put(f'shapes/{TRAIN}', b'{"images": ' + b'9' * 100_000 + b'}'),
    'no images': edit(TRAIN, lambda c: c.pop('images') and None),
    'no annotations': edit(TRAIN, lambda c: c.pop('annotations') and None),
    'no categories': edit(TRAIN, lambda c: c.pop('categories') and None),
    'images are an object': edit(TRAIN, lambda c: c.update(images={})),
    'images are numbers': edit(TRAIN, lambda c: c.update(images=[1, 2])),
    'no file name': edit(TRAIN, lambda c: first(c, 'images').pop('file_name') and None),
    'file name is a number': edit(TRAIN, lambda c: first(c, 'images').update(file_name=5)),
    'file name has a zero byte': edit(TRAIN, lambda c: first(c, 'images').update(file_name='\0')),
    'file name is long': edit(TRAIN, lambda c: first(c, 'images').update(file_name='n' * 999)),
    'file name is a device': edit(
        TRAIN, lambda c: first(c, 'images').update(file_name='/dev/zero')
    ),
    'file name is no text': edit(TRAIN, lambda c: first(c, 'images').update(file_name='\udcff')),
    'no width': edit(TRAIN, lambda c: first(c, 'images').pop('width') and None),
    'huge width': edit(TRAIN, lambda c: first(c, 'images').update(width=10**9)),
    'height of 0': edit(TRAIN, lambda c: first(c, 'images').update(height=0)),
    'width is a text': edit(TRAIN, lambda c: first(c, 'images').update(width='64')),
    'one image id twice': edit(TRAIN, lambda c: c['images'].append(dict(c['images'][0]))),
    'image id is a list': edit(TRAIN, lambda c: first(c, 'images').update(id=[1])),
    'image id is huge': edit(TRAIN, lambda c: first(c, 'images').update(id=10**30)),
    'one id twice': edit(TRAIN, lambda c: c['annotations'].append(dict(c['annotations'][0]))),
    'id is a list': edit(TRAIN, lambda c: first(c).update(id=[])),
    'no image id': edit(TRAIN, lambda c: first(c).pop('image_id') is None),
    'no category id': edit(TRAIN, lambda c: first(c).pop('category_id') is None),
    'category is a list': edit(TRAIN, lambda c: first(c).update(category_id=[1])),
    'no box': edit(TRAIN, lambda c: first(c).pop('bbox') and None),
    'box of three': edit(TRAIN, lambda c: first(c).update(bbox=[1, 2, 3])),
    'box of texts': edit(TRAIN, lambda c: first(c).update(bbox=['a', 'b', 'c', 'd'])),
    'box of NaN': edit(TRAIN, lambda c: first(c).update(bbox=[float('nan')] * 4)),
    'box of 1e308': edit(TRAIN, lambda c: first(c).update(bbox=[1e308] * 4)),
    'box far away': edit(TRAIN, lambda c: first(c).update(bbox=[0, 0, 1e9, 1e9])),
    'polygon of 1e9': edit(TRAIN, lambda c: first(c).update(segmentation=[[0, 0, 1e9, 0, 9, 1e9]])),
    'polygon of -1e9': edit(
        TRAIN, lambda c: first(c).update(segmentation=[[0, 0, -1e9, 0, 9, -1e9]])
    ),
    'polygon of infinity': edit(
        TRAIN, lambda c: first(c).update(segmentation=[[float('inf')] * 6])
    ),
    'polygon of NaN': edit(TRAIN, lambda c: first(c).update(segmentation=[[float('nan')] * 6])),
    'polygon of two numbers': edit(TRAIN, lambda c: first(c).update(segmentation=[[1, 1]])),
    'polygon of texts': edit(TRAIN, lambda c: first(c).update(segmentation=[['a'] * 6])),
    'polygon is a number': edit(TRAIN, lambda c: first(c).update(segmentation=5)),
    'polygon of nothing': edit(TRAIN, lambda c: first(c).update(segmentation=[])),
    'deep polygon': edit(TRAIN, lambda c: first(c).update(segmentation=[[[[[1]]]]])),
    'runs are negative': edit(
        TRAIN, lambda c: first(c).update(segmentation=dict(size=[SIDE, SIDE], counts=[-5, 9]))
    ),
    'runs are longer': edit(
        TRAIN, lambda c: first(c).update(segmentation=dict(size=[SIDE, SIDE], counts=[0, 10**9]))
    ),
    'runs of another size': edit(
        TRAIN, lambda c: first(c).update(segmentation=dict(size=[9, 9], counts=[0, 81]))
    ),
    'runs of a huge size': edit(
        TRAIN, lambda c: first(c).update(segmentation=dict(size=[10**6, 10**6], counts='0'))
    ),
    'code is odd': edit(
        TRAIN, lambda c: first(c).update(segmentation=dict(size=[SIDE, SIDE], counts='\x7f' * 99))
    ),
    'code is no text': edit(
        TRAIN, lambda c: first(c).update(segmentation=dict(size=[SIDE, SIDE], counts='\ud800'))
    ),
    'no category of a class': edit(TRAIN, lambda c: c['categories'].pop() and None),
    'no category name': edit(TRAIN, lambda c: first(c, 'categories').pop('name') and None),
    'category name is a list': edit(TRAIN, lambda c: first(c, 'categories').update(name=[])),
    'two categories of one id': edit(TRAIN, lambda c: c['categories'][1].update(id=1)),
    'no annotation file': remove(f'shapes/{TRAIN}'),
    'annotation file is a folder': replace(f'shapes/{TRAIN}', Path.mkdir),
    'annotation file is a pipe': replace(f'shapes/{TRAIN}', os.mkfifo),
    'annotation file is a device': replace(
        f'shapes/{TRAIN}', lambda p: p.symlink_to('/dev/zero')
    ),
    'annotation file is a loop': replace(f'shapes/{TRAIN}', lambda p: p.symlink_to(p.name)),
    'annotation file is closed': lambda f: (f / f'shapes/{TRAIN}').chmod(0),
    'validation is cut': put(f'shapes/{VAL}', b'{'),
    'validation polygon of 1e9': edit(
        VAL, lambda c: first(c).update(segmentation=[[0, 0, 1e9, 0, 9, 1e9]])
    ),
    'no image': remove(PICTURE),
    'image is empty': put(PICTURE, b''),
    'image is none': put(PICTURE, b'not an image'),
    'image is cut': lambda f: (f / PICTURE).write_bytes((f / PICTURE).read_bytes()[:200]),
    'image is a folder': replace(PICTURE, Path.mkdir),
    'image is a pipe': replace(PICTURE, os.mkfifo),
    'image is a device': replace(PICTURE, lambda p: p.symlink_to('/dev/zero')),
    'image is a loop': replace(PICTURE, lambda p: p.symlink_to(p.name)),
    'image is closed': lambda f: (f / PICTURE).chmod(0),
    'image is of 1 pixel': lambda f: Image.new('RGB', (1, 1)).save(f / PICTURE),
}  # fmt: skip
# what is small enough to be passed over, or what training can do without
TOLERATED = {
    'image is of 1 pixel', 'box of 1e308', 'box far away', 'image id is huge', 'one id twice',
    'id is a list', 'no category id', 'category is a list', 'two categories of one id',
    'polygon is a number', 'height of 0', 'no category of a class', 'no image id',
    'image is cut', 'polygon of two numbers',
}  # fmt: skip
GOOD_COCO: dict[str, Callable[[Path], Any]] = {
    'as it is': lambda f: None,
    'no info': lambda f: [edit(n, lambda c: c.pop('info') and None)(f) for n in (TRAIN, VAL)],
    'no crowd flags': edit(VAL, lambda c: [a.pop('iscrowd') for a in c['annotations']] and None),
    'more keys': edit(TRAIN, lambda c: c.update(licenses=[{'\x1b[2J': [[[]]]}])),
    'gray image': lambda f: Image.open(f / PICTURE).convert('L').save(f / PICTURE),
    'an image without annotations': edit(
        TRAIN, lambda c: c.update(annotations=[a for a in c['annotations'] if a['image_id']])
    ),
}  # fmt: skip
VALIDATE = (*SMALL, 'train_cfg.val_interval=1', 'model.test_cfg.rcnn.score_thr=0.0')


def coco_cases(world: World, more: int) -> Iterator[Case]:
    for number, (what, damage) in enumerate(BAD_COCO.items()):
        prepare = partial(in_turn, needs(world, 'detector.py', 'shapes'), damage)
        expect = 'either' if what in TOLERATED else 'reject'
        if number % 2 or more > 1 or 'image' in what:
            yield Case('data: COCO', f'{what}, train', train(*SMALL), prepare, expect=expect)
        if not number % 2 or more > 1:
            yield Case(
                'data: COCO', f'{what}, check', check('detector.py'), prepare,
                expect=expect, codes=(1, 2),
            )  # fmt: skip
    for number, (what, damage) in enumerate(GOOD_COCO.items()):
        if more == 1 and number % 2:
            continue
        yield Case(
            'data: COCO', f'good: {what}', train(*VALIDATE),
            partial(in_turn, needs(world, 'detector.py', 'shapes'), damage), expect='work',
        )  # fmt: skip


def in_turn(first: Callable[[Path], Any], second: Callable[[Path], Any], folder: Path) -> None:
    first(folder)
    second(folder)


def coco_random_cases(world: World, seed: int, more: int) -> Iterator[Case]:
    """Random values in a file that is right otherwise; what passes the check can be trained on."""
    for number in range(12 * more):

        def change(folder: Path, number: int = number) -> None:
            path = folder / 'shapes' / (VAL if number % 5 == 4 else TRAIN)
            content = json.loads(path.read_text())
            mutate_json(content, dice('coco', seed, number))
            path.write_text(json.dumps(content))

        job = train(*VALIDATE) if number % 3 == 0 else check('detector.py', '--all')
        yield Case(
            'data: random', f'COCO {number}', job,
            partial(in_turn, needs(world, 'detector.py', 'shapes'), change),
            expect='either', codes=(1, 2) if number % 3 else (2,),
        )  # fmt: skip
    for number in range(6 * more):

        def spoil(folder: Path, number: int = number) -> None:
            path = folder / (f'shapes/{TRAIN}' if number % 2 else PICTURE)
            path.write_bytes(damaged(path.read_bytes(), dice('bytes', seed, number)))

        yield Case(
            'data: random', f'bytes {number}', check('detector.py', '--all'),
            partial(in_turn, needs(world, 'detector.py', 'shapes'), spoil),
            expect='either', codes=(1, 2),
        )  # fmt: skip


FIRST_XML = 'voc/Annotations/000001.xml'
LIST = 'voc/ImageSets/Main/trainval.txt'
FIRST_JPG = 'voc/JPEGImages/000001.jpg'


def xml(old: str, new: str) -> Callable[[Path], None]:
    return put(FIRST_XML, XML.format(name='000001').replace(old, new).encode('utf-8', 'ignore'))


LAUGHS = (
    '<!DOCTYPE a [<!ENTITY a0 "ha">'
    + ''.join(f'<!ENTITY a{i + 1} "{f"&a{i};" * 10}">' for i in range(12))
    + ']>'
)
BAD_VOC: dict[str, Callable[[Path], Any]] = {
    'no XML': put(FIRST_XML, b'no xml'),
    'empty': put(FIRST_XML, b''),
    'cut': put(FIRST_XML, XML.encode()[:100]),
    'no text': put(FIRST_XML, b'\xff\xfe\x00'),
    'unknown encoding': put(FIRST_XML, b'<?xml version="1.0" encoding="x"?><a/>'),
    'another root': put(FIRST_XML, b'<a><object/></a>'),
    'no size': xml('<size>', '<other>'),
    'width is a text': xml('<width>64', '<width>wide'),
    'width is huge': xml('<width>64', '<width>99999999999'),
    'no name': xml('<name>circle</name>', ''),
    'no box': xml('bndbox', 'box'),
    'no side': xml('<xmin>5</xmin>', ''),
    'side is a text': xml('<xmin>5', '<xmin>five'),
    'side is empty': xml('<xmin>5', '<xmin>'),
    'side is NaN': xml('<xmin>5', '<xmin>nan'),
    'side is huge': xml('<xmax>40', '<xmax>1e300'),
    'difficult is a text': xml('<difficult>0', '<difficult>yes'),
    'deep': put(FIRST_XML, b'<a>' * 100_000),
    'entities that grow': put(
        FIRST_XML, (LAUGHS + XML.format(name='000001').replace('circle', '&a12;')).encode()
    ),
    'entity of a file': put(
        FIRST_XML, b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
        + XML.format(name='000001').replace('circle', '&x;').encode()
    ),
    'is a pipe': replace(FIRST_XML, os.mkfifo),
    'is a device': replace(FIRST_XML, lambda p: p.symlink_to('/dev/zero')),
    'is a folder': replace(FIRST_XML, Path.mkdir),
    'is closed': lambda f: (f / FIRST_XML).chmod(0),
    'list names none': put(LIST, b'nobody\n'),
    'list is empty': put(LIST, b''),
    'list is no text': put(LIST, b'\xff\xfe\n'),
    'list leads elsewhere': put(LIST, b'../../../../etc/passwd\n'),
    'list has a zero byte': put(LIST, b'a\0b\n'),
    'list is a pipe': replace(LIST, os.mkfifo),
    'list is a device': replace(LIST, lambda p: p.symlink_to('/dev/zero')),
    'image is a pipe': replace(FIRST_JPG, os.mkfifo),
    'image is none': put(FIRST_JPG, b'none'),
    'no image': remove(FIRST_JPG),
}  # fmt: skip
VOC_TOLERATED = {'another root', 'no size', 'width is huge', 'side is huge', 'width is a text',
                 'list is empty', 'difficult is a text'}  # fmt: skip


def voc_cases(world: World, seed: int, more: int) -> Iterator[Case]:
    ready = needs(world, 'voc.py', 'voc')
    inherited = partial(in_turn, ready, needs(world, 'detector.py'))
    for number, (what, damage) in enumerate(BAD_VOC.items()):
        prepare = partial(in_turn, inherited, damage)
        expect = 'either' if what in VOC_TOLERATED else 'reject'
        if number % 2 or more > 1:
            yield Case('data: VOC', f'{what}, train', train(*SMALL, config='voc.py'), prepare,
                       expect=expect)  # fmt: skip
        if not number % 2 or more > 1:
            yield Case('data: VOC', f'{what}, check', check('voc.py'), prepare,
                       expect=expect, codes=(1, 2))  # fmt: skip
    yield Case('data: VOC', 'good', train(*SMALL, 'train_cfg.val_interval=1', config='voc.py'),
               inherited, expect='work')  # fmt: skip
    for number in range(5 * more):

        def spoil(folder: Path, number: int = number) -> None:
            path = folder / FIRST_XML
            path.write_bytes(damaged(path.read_bytes(), dice('voc', seed, number)))

        job = train(*SMALL, config='voc.py') if number % 3 == 0 else check('voc.py')
        yield Case('data: random', f'VOC {number}', job, partial(in_turn, inherited, spoil),
                   expect='either', codes=(1, 2) if number % 3 else (2,))  # fmt: skip


LABELS = 'ade/annotations/training/ADE_train_00000001.png'
PHOTO = 'ade/images/training/ADE_train_00000001.jpg'
BAD_ADE: dict[str, Callable[[Path], Any]] = {
    'label map is empty': put(LABELS, b''),
    'label map is none': put(LABELS, b'no image'),
    'label map is cut': lambda f: (f / LABELS).write_bytes((f / LABELS).read_bytes()[:60]),
    'no label map': remove(LABELS),
    'label map of another size': lambda f: Image.new('L', (9, 9)).save(f / LABELS),
    'label map in color': lambda f: Image.new('RGB', (64, 48)).save(f / LABELS),
    'label map of 16 bits': lambda f: Image.new('I;16', (64, 48), 60_000).save(f / LABELS),
    'label map is a pipe': replace(LABELS, os.mkfifo),
    'label map is a folder': replace(LABELS, Path.mkdir),
    'label map is a loop': replace(LABELS, lambda p: p.symlink_to(p.name)),
    'image is empty': put(PHOTO, b''),
    'image is a pipe': replace(PHOTO, os.mkfifo),
    'image is a device': replace(PHOTO, lambda p: p.symlink_to('/dev/zero')),
    'image is closed': lambda f: (f / PHOTO).chmod(0),
    'no images': lambda f: (f / 'ade/images/training').rename(f / 'ade/images/other'),
}  # fmt: skip
ADE_TOLERATED = {'label map of 16 bits', 'label map is cut', 'label map in color'}


def ade_cases(world: World, seed: int, more: int) -> Iterator[Case]:
    ready = needs(world, 'segmentor.py', 'ade')
    options = ('train_cfg.max_iters=2',)
    for what, damage in BAD_ADE.items():
        prepare = partial(in_turn, ready, damage)
        expect = 'either' if what in ADE_TOLERATED else 'reject'
        yield Case('data: ADE20K', f'{what}, check', check('segmentor.py'), prepare,
                   expect=expect, codes=(1, 2))  # fmt: skip
        if 'map' not in what or more > 1 or 'pipe' in what or 'size' in what:
            yield Case('data: ADE20K', f'{what}, train', train(*options, config='segmentor.py'),
                       prepare, expect=expect)  # fmt: skip
    for number in range(4 * more):

        def spoil(folder: Path, number: int = number) -> None:
            path = folder / (LABELS, PHOTO)[number % 2]
            path.write_bytes(damaged(path.read_bytes(), dice('ade', seed, number)))

        yield Case('data: random', f'ADE20K {number}', check('segmentor.py'),
                   partial(in_turn, ready, spoil), expect='either', codes=(1, 2))  # fmt: skip
