"""Folders of users' data: names that are programs, links, pipes, bombs and odd numbers."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.data.formats import writers
from tests.data.sets import polygon_line, write_maps, write_roboflow, write_voc, write_yolo
from tests.hostile.commands import command, put
from tests.hostile.damage import damaged
from tests.hostile.judge import Case
from tests.hostile.world import World, dice


def tool(name: str) -> Callable[[Path], Path]:
    """A writer of a format of labeling tools, which returns the folder."""

    def write(root: Path) -> Path:
        writers.WRITERS[name][0](root)
        return root

    return write


WRITERS: dict[str, Callable[[Path], Path]] = {
    'yolo': write_yolo,
    'coco': write_roboflow,
    'voc': partial(write_voc, lists=False),
    'masks': partial(write_maps, table='classes.txt'),
    'labelme': tool('labelme'),
    'cvat': tool('CVAT'),
    'via': tool('VIA 2'),
    'createml': tool('CreateML'),
    'label-studio': tool('Label Studio'),
    'supervisely': tool('Supervisely'),
    'kitti': tool('KITTI'),
    'csv': tool('CSV of TensorFlow'),
    'darknet': tool('darknet'),
}
FIRST = {  # the annotations of an image
    'yolo': 'labels/train/train_0.txt',
    'coco': 'train/_annotations.coco.json',
    'voc': 'Annotations/0.xml',
    'masks': 'masks/0.png',
    'labelme': '0.json',
    'cvat': 'annotations.xml',
    'via': 'via_project.json',
    'createml': 'train/_annotations.createml.json',
    'label-studio': 'project-1.json',
    'supervisely': 'ds/ann/0.jpg.json',
    'kitti': 'training/label_2/0.txt',
    'csv': 'train_labels.csv',
    'darknet': 'obj.data',
}
IMAGES = {
    'yolo': 'images', 'coco': 'train', 'voc': 'JPEGImages', 'masks': 'images', 'labelme': '.',
    'cvat': 'images', 'via': '.', 'createml': 'train', 'label-studio': 'images',
    'supervisely': 'ds/img', 'kitti': 'training/image_2', 'csv': 'images',
    'darknet': 'obj_train_data',
}  # fmt: skip
RUNS = '{{$X:"(\\\',open("PWNED","w"))#|Z}}'
LEAKS = '{{$HOME:x}}'
BOMB = ''.join(f'a{i}: &a{i} [{", ".join([f"*a{i - 1}"] * 9)}]\n' for i in range(1, 30))


def cases(world: World, seed: int, more: int) -> Iterator[Case]:
    for kind in WRITERS:
        for name, (change, expect) in BROKEN.items():
            yield folder_case(f'{kind}: {name}', kind, partial(change, kind), expect)
        for number in range(4 * more):
            chance = dice(seed, f'folders {kind}', number)
            yield folder_case(f'{kind}: damage {number}', kind, partial(damage, kind, chance))
    for name, content in YAML.items():
        change = put('data.yaml', content)
        yield folder_case(f'yaml: {name}', 'yolo', change, 'reject')
    for name, content in TABLES.items():
        change = put('classes.csv', content)
        yield folder_case(f'csv: {name}', 'masks', change, 'reject', table=False)
    yield from config_cases()


def folder_case(
    name: str,
    kind: str,
    change: Callable[[Path], Any],
    expect: str = 'either',
    table: bool = True,
) -> Case:
    """A changed dataset that is converted, in COCO form or to label maps."""

    def prepare(folder: Path) -> None:
        (folder / 'Pictures').mkdir()
        (folder / 'Pictures' / 'holiday.png').write_bytes(b'a photograph')
        write = write_maps if not table else WRITERS[kind]
        change(write(folder / 'some' / 'set'))

    more = ['--label-maps'] if kind == 'masks' else []
    job = command('convert_dataset', 'some/set', 'out', '--skip-broken', *more)
    return Case('folders', name, job, prepare, expect, codes=(2,), seconds=120)


def damage(kind: str, chance: Any, root: Path) -> None:
    path = root / FIRST[kind]
    path.write_bytes(damaged(path.read_bytes(), chance))


def link_around(kind: str, root: Path) -> None:
    for name in ('one', 'two', 'three'):
        (root / IMAGES[kind] / name).symlink_to(root, target_is_directory=True)


def pipe(kind: str, root: Path) -> None:
    path = root / FIRST[kind]
    path.unlink()
    os.mkfifo(path)


def pipe_beside(kind: str, root: Path) -> None:
    for suffix in ('.xml', '.json', '.yaml', '.csv', '.txt', '.png'):
        os.mkfifo(root / f'a{suffix}')


def dangle(kind: str, root: Path) -> None:
    path = root / FIRST[kind]
    path.unlink()
    path.symlink_to('nowhere')


def dangling_folder(kind: str, root: Path) -> None:
    folder = (root / FIRST[kind]).parent
    shutil.rmtree(folder)
    folder.symlink_to('nowhere')


def outside(kind: str, root: Path) -> None:
    """Names that lead to a photograph that is not of the dataset."""
    name = 'a/b/../../../../../Pictures/holiday.png'
    if kind == 'coco':
        path = root / FIRST[kind]
        content = json.loads(path.read_text())
        content['images'][0]['file_name'] = name
        path.write_text(json.dumps(content))
    elif kind == 'voc' or kind in ('labelme', 'cvat', 'via', 'createml', 'label-studio', 'csv'):
        path = root / FIRST[kind]
        path.write_text(path.read_text().replace('0.jpg', name))
    elif kind == 'yolo':
        (root / 'list.txt').write_text(f'{name}\nimages/train/train_0.png\n')
        text = (root / 'data.yaml').read_text().replace('images/train', 'list.txt')
        (root / 'data.yaml').write_text(text)


def empty(kind: str, root: Path) -> None:
    (root / FIRST[kind]).write_bytes(b'')


def endless(kind: str, root: Path) -> None:
    (root / FIRST[kind]).write_bytes(b'9' * 6000)


def long_line(kind: str, root: Path) -> None:
    (root / FIRST[kind]).write_bytes(b'0 ' * 5_000_000)


BROKEN: dict[str, tuple[Callable[[str, Path], Any], str]] = {
    'links in a circle': (link_around, 'either'),
    'a pipe for annotations': (pipe, 'either'),
    'pipes beside': (pipe_beside, 'either'),
    'a link to nothing': (dangle, 'either'),
    'a folder that is a link to nothing': (dangling_folder, 'either'),
    'names that lead outside': (outside, 'either'),
    'empty annotations': (empty, 'either'),
    'a number of 6000 digits': (endless, 'either'),
    'a line of 10 MB': (long_line, 'either'),
}
YAML = {
    'alias bomb': f'a0: &a0 x\n{BOMB}names: *a29\ntrain: images/train\n'.encode(),
    'dates': b'names: [2024-01-01, b, c, d]\ntrain: images/train\n',
    'no date': b'names: [a, b, c, d]\nnc: 2024-99-99\ntrain: images/train\n',
    'null': b'names: [a, null, c, d]\ntrain: images/train\n',
    'twice': b'names: [a, a, c, d]\ntrain: images/train\n',
    'surrogate': b'names: ["\\ud800", b, c, d]\ntrain: images/train\n',
    'lines': b'names: ["a\\nb", b, c, d]\ntrain: images/train\n',
    'long': b'names: [' + b'x' * 10_000 + b', b, c, d]\ntrain: images/train\n',
    'digits': b'names: [a, b, c, d]\nnc: ' + b'9' * 6000 + b'\ntrain: images/train\n',
    'a tag': b'names: !!python/object/apply:os.system ["touch PWNED"]\ntrain: images/train\n',
    'a place that is a list': b'names: [a, b, c, d]\ntrain: [[images/train]]\n',
    'a long place': b'names: [a, b, c, d]\ntrain: ' + b'x' * 5000 + b'\n',
}
TABLES = {
    'giant field': b'name,r,g,b\n' + b'x' * 200_000 + b',1,2,3\n',
    'digits': b'name,value\na,' + b'9' * 6000,
    'Latin-1': b'name,r,g,b\ncaf\xe9,1,2,3\n',
    'no color': b'name,r,g,b\na,999,0,0\n',
    'null': b'name,r,g,b\na\0b,1,2,3\n',
}


def config_cases() -> Iterator[Case]:
    """The config of a dataset whose names are programs is written, read, dumped and read."""
    for model, write in (
        ('rtmdet_swiftformer_xs', write_yolo),
        ('segformer_swiftformer_xs_ade20k', partial(write_yolo, line=polygon_line)),
    ):
        for name in (RUNS, LEAKS, '{{fileDirname}}', '\'"""\\n; open("PWNED", "w") #'):
            job, prepare = partial(write_and_read, model), partial(name_all, write, name)
            yield Case('folders', f'{model}: named {name!r}', job, prepare, 'work')


def name_all(write: Callable[[Path], Path], name: str, folder: Path) -> None:
    root = write(folder / name.replace('/', ''))
    text = (root / 'data.yaml').read_text().replace('circle', json.dumps(name))
    (root / 'data.yaml').write_text(text)


def write_and_read(model: str, folder: Path) -> None:
    from mmengine.config import Config

    from mmeffvit.config.load import load_config
    from mmeffvit.data.prepare import PrepareOptions, prepare
    from mmeffvit.train.folder.base import Base, Start
    from mmeffvit.train.folder.recipe import Overrides, make_recipe
    from mmeffvit.train.folder.write_config import write_config

    (root,) = (path for path in folder.iterdir() if (path / 'data.yaml').is_file())
    base = Base.of(model)
    work = folder / 'work'
    data, splits = prepare(root, work / 'index', PrepareOptions(for_segmentor=base.is_segmentor))
    recipe = make_recipe(base, data.splits['train'], Overrides())
    path = work / 'config.py'
    write_config(path, base, data, splits, recipe, Overrides(), Start('x'))
    config = load_config(path)
    config.dump(work / 'dumped.py')
    again = Config.fromfile(work / 'dumped.py')
    assert root.name in again.classes, again.classes
    assert again.to_dict() == config.to_dict()
