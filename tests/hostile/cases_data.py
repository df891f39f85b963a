"""Datasets in COCO format: what is missing, odd or damaged.

Every damage comes with words of the fault that it is, which training and the check both name.
"""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from PIL import Image

from tests.data.sets import edit_json
from tests.hostile.commands import SMALL, Job, command, in_turn, needs, put, train
from tests.hostile.damage import install_ghostscript, postscript, spoil
from tests.hostile.judge import Case
from tests.hostile.world import SIDE, TRAIN, VAL, World
from tests.utils.odd_images import jpeg_of


def cases(world: World, seed: int, more: int) -> Iterator[Case]:
    """Also random bytes; tests/train/checks has random values, and other formats."""
    ready = needs(world, 'detector.py', 'shapes')
    yield from judged('data: COCO', ready, BAD_COCO, GOOD_COCO)
    damages: dict[str, tuple[Job, str]] = {'cut': BAD_COCO['cut']}
    for number in range(3 * more):
        damages[f'bytes {number}'] = spoil(FILE, FILE, seed + number), FILE
        damages[f'pixels {number}'] = spoil(PICTURE, PICTURE, seed + number), PICTURE
    yield from judged('data: random COCO', ready, damages, {'as it is': GOOD_COCO['as it is']})


def judged(
    group: str, ready: Job, bad: dict[str, tuple[Job, str]], good: dict[str, Job]
) -> Iterator[Case]:
    """Every damage for training and for the check, which must also accept what is good.

    The first of both are controls; training can do without some, and without random damage.
    """
    doors = {'train': train(*VALIDATE), 'check': command('check', 'detector.py', '--no-model')}
    for how, job in doors.items():
        is_check = how == 'check'
        for what, change in good.items():
            yield Case(group, how, f'good: {what}', job, in_turn(ready, change), 'work',
                       says=('nothing is broken',) if is_check else ('evaluate the best',),
                       is_control=what == next(iter(good)))  # fmt: skip
        for what, (damage, word) in bad.items():
            yield Case(group, how, what, job, in_turn(ready, damage),
                       'reject' if what in BAD_COCO.keys() - TOLERATED else 'either', codes=(1, 2),
                       says=('ERROR', word) if is_check else (word,),
                       is_control=what == next(iter(bad)))  # fmt: skip


def edit(name: str, change: Callable[[Any], Any]) -> Job:
    """Change a JSON file of the detector's data."""
    return lambda folder: edit_json(folder / 'shapes' / name, change)


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
    'a number': (put(FILE, b'5'), f'{FILE} has no list'),
    'a number of 100,000 digits': (put(FILE, b'{"images": ' + b'9' * 100_000 + b'}'), 'digits'),
    'no images': (edit(TRAIN, lambda c: c.pop('images')), 'no list of images'),
    'no annotations': (edit(TRAIN, lambda c: c.pop('annotations')), 'no list of annotations'),
    'images are numbers': (edit(TRAIN, lambda c: c.update(images=[1, 2])), '1 among images'),
    'no file name': (without('images', 'file_name'), 'file_name None in images'),
    'file name is a number': (pictured(file_name=5), 'file_name 5 in images'),
    'file name has a zero byte': (pictured(file_name='\0'), r"file_name '\x00' in images"),
    'file name is a device': (pictured(file_name='/dev/zero'), '/dev/zero'),
    'file name is no text': (pictured(file_name='\udcff'), r"file_name '\udcff' in images"),
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
    'box of NaN': (annotated(bbox=[float('nan')] * 4), 'bbox [nan, nan, nan, nan]'),
    'box of 1e308': (annotated(bbox=[1e308] * 4), 'bbox [1e+308'),
    'box far away': (annotated(bbox=[0, 0, 1e9, 1e9]), 'boxes that exceed their image'),
    'polygon of 1e9': (mask_of([[0, 0, 1e9, 0, 9, 1e9]]), FAR),
    'polygon of NaN': (mask_of([[float('nan')] * 6]), FAR),
    'polygon of two numbers': (mask_of([[1, 1]]), 'a polygon without three points'),
    'polygon of seven numbers': (
        mask_of([[1, 1, 5, 1, 5, 5, 1]]), 'a polygon with an odd number of values'),
    'polygon is a number': (mask_of(5), 'neither a list nor a dict: 5'),
    'polygon of nothing': (mask_of([]), 'objects without a mask'),
    'deep polygon': (mask_of([[[[[1]]]]]), 'a polygon that is not a list of numbers'),
    'runs are negative': (runs([-5, 9]), 'run lengths that do not fill the image'),
    'runs are longer': (runs([0, 10**9]), 'run lengths that do not fill the image'),
    'runs of another size': (runs([0, 81], 9), 'annotation 1: [9, 9]'),
    'runs of a huge size': (runs('0', 10**6), 'annotation 1: [1000000, 1000000]'),
    'code is odd': (runs('\x7f' * 99), 'run lengths that are truncated or not a COCO string'),
    'no category of a class': (edit(TRAIN, lambda c: c['categories'].pop()), 'categor'),
    'no category name': (without('categories', 'name'), 'name None in categories'),
    'two categories of one id': (
        edit(TRAIN, lambda c: c['categories'][1].update(id=1)), 'duplicate category ids'),
    'no annotation file': (remove(FILE), f"'{FILE}' does not exist"),
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
TOLERATED = {'image is of 1 pixel', 'polygon of two numbers', 'polygon of seven numbers'}
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
