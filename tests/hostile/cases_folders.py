"""Folders of users' data: names that are programs, links, pipes, bombs and odd numbers."""

import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.data import layouts
from tests.data.public_layouts import READ
from tests.data.sets import edit_json, write_maps, write_roboflow, write_voc, write_yolo
from tests.hostile.commands import CONVERT_DATASET, Job, script
from tests.hostile.damage import install_ghostscript, postscript, spoil
from tests.hostile.judge import Case
from tests.hostile.world import World


def tool(name: str) -> Callable[[Path], Path]:
    """A writer of a format of labeling tools, which returns the folder."""
    return lambda root: layouts.write(root, READ[name][0])


# a writer, the annotations of an image, and the folder of images
KINDS: dict[str, tuple[Callable[[Path], Path], str, str]] = {
    'yolo': (write_yolo, 'labels/train/train_0.txt', 'images'),
    'coco': (write_roboflow, 'train/_annotations.coco.json', 'train'),
    'voc': (partial(write_voc, lists=False), 'Annotations/0.xml', 'JPEGImages'),
    'masks': (partial(write_maps, table='classes.txt'), 'masks/0.png', 'images'),
    'labelme': (tool('labelme'), '0.json', '.'),
    'cvat': (tool('CVAT'), 'annotations.xml', 'images'),
    'via': (tool('VIA 2'), 'via_project.json', '.'),
    'createml': (tool('CreateML'), 'train/_annotations.createml.json', 'train'),
    'label-studio': (tool('Label Studio'), 'project-1.json', 'images'),
    'supervisely': (tool('Supervisely'), 'ds1/ann/0.png.json', 'ds1/img'),
    'kitti': (tool('KITTI'), 'training/label_2/0.txt', 'training/image_2'),
    'csv': (tool('CSV of TensorFlow'), 'train_labels.csv', 'images'),
    'darknet': (tool('darknet'), 'obj.data', 'obj_train_data'),
}
FIRST = {kind: first for kind, (_, first, _) in KINDS.items()}


def cases(world: World, seed: int, more: int) -> Iterator[Case]:
    job = script(CONVERT_DATASET, 'nowhere', 'out')
    yield Case('folders', 'convert-dataset, yolo', 'bad', job,
               says=("nowhere' does not exist",), is_control=True)  # fmt: skip
    for kind, (write, *_) in KINDS.items():
        yield converted(kind, 'good', write, expect='work', says=('train.json: ',),
                        makes=('out/train.json',), is_control=True)  # fmt: skip
        for name, (change, words) in BROKEN.items():
            if word := words.get(kind, words.get('')):
                yield converted(kind, name, write, partial(change, kind),
                                expect='reject' if word.startswith('error: ') else 'work',
                                says=(word.removeprefix('error: '),))  # fmt: skip
        yield converted(kind, 'images that are PostScript', write, postscripts,
                        expect='either', says=('some/set',))  # fmt: skip
        for number in range(4 * more):
            change = spoil(FIRST[kind], seed, f'folders {kind}', number)
            yield converted(kind, f'damage {number}', write, change, expect='either',
                            says=('some/set',))  # fmt: skip


def converted(
    kind: str, name: str, write: Callable[[Path], Path], change: Job | None = None, **values: Any
) -> Case:
    """A changed dataset that is converted, to COCO format or to label maps."""

    def prepare(folder: Path) -> None:
        (folder / 'Pictures').mkdir()
        (folder / 'Pictures' / 'holiday.png').write_bytes(b'a photograph')
        root = write(folder / 'some' / 'set')
        if change:
            change(root)

    more = ['--label-maps'] if kind == 'masks' else []
    job = script(CONVERT_DATASET, 'some/set', 'out', '--skip-broken', *more)
    return Case('folders', f'convert-dataset, {kind}', name, job, prepare, **values)


def link_around(kind: str, root: Path) -> None:
    for name in ('one', 'two', 'three'):
        (root / KINDS[kind][2] / name).symlink_to(root, target_is_directory=True)


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
        edit_json(root / FIRST[kind], lambda content: content['images'][0].update(file_name=name))
    elif kind == 'voc' or kind in ('labelme', 'cvat', 'via', 'createml', 'label-studio', 'csv'):
        path = root / FIRST[kind]
        path.write_text(path.read_text().replace('0.jpg', name))
    elif kind == 'yolo':
        (root / 'list.txt').write_text(f'{name}\nimages/train/train_0.png\n')
        text = (root / 'data.yaml').read_text().replace('images/train', 'list.txt')
        (root / 'data.yaml').write_text(text)


def empty(kind: str, root: Path) -> None:
    (root / FIRST[kind]).write_bytes(b'')


def postscripts(root: Path) -> None:
    """Every image is a program for Ghostscript."""
    install_ghostscript(root.parents[1])
    for path in [*root.rglob('*.png'), *root.rglob('*.jpg')]:
        postscript(path.name)(path.parent)


def endless(kind: str, root: Path) -> None:
    (root / FIRST[kind]).write_bytes(b'9' * 6000)


def long_line(kind: str, root: Path) -> None:
    (root / FIRST[kind]).write_bytes(b'0 ' * 5_000_000)


WRITTEN, NO_FORMAT = 'train.json: ', 'error: is in no known format'
NO_FILE, IRREGULAR = 'error: no file to train on', "' is not a regular file"
OUTSIDE = 'images that are not in the folder'
# what is printed for a kind, '' is any other; a refusal starts with `error: `
DAMAGED = {
    '': NO_FORMAT,  # one file has all annotations
    'coco': NO_FILE,
    'darknet': WRITTEN,  # it can do without
    **{kind: FIRST[kind] for kind in ('yolo', 'voc', 'masks', 'labelme', 'supervisely', 'kitti')},
}
BROKEN: dict[str, tuple[Callable[[str, Path], Any], dict[str, str]]] = {
    'links in a circle': (link_around, {'': WRITTEN}),
    'a pipe for annotations': (pipe, DAMAGED),
    'pipes beside': (pipe_beside, {
        '': WRITTEN, 'voc': f'a.xml{IRREGULAR}', 'labelme': f'a.json{IRREGULAR}',
    }),
    'a link to nothing': (dangle, DAMAGED),
    'a folder that is a link to nothing': (dangling_folder, {
        'yolo': 'error: data.yaml has no images to train on', 'coco': NO_FILE,
        'supervisely': WRITTEN,  # of the other folders
        **dict.fromkeys(('voc', 'masks', 'createml', 'kitti'), NO_FORMAT),
    }),
    'names that lead outside': (outside, {
        # which take the image of the name of the file
        'voc': WRITTEN, 'labelme': WRITTEN,
        **dict.fromkeys(('yolo', 'coco', 'cvat', 'via'), OUTSIDE),
        **dict.fromkeys(('createml', 'label-studio', 'csv'), OUTSIDE),
    }),
    'empty annotations': (empty, {
        **DAMAGED, 'yolo': 'images without objects', 'kitti': 'images without objects',
    }),
    'a number of 6000 digits': (endless, DAMAGED),
    'a line of 10 MB': (long_line, {**DAMAGED, 'csv': f'error: {FIRST["csv"]}'}),
}  # fmt: skip
