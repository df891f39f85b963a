"""The format of a dataset, detected once, from what its files are."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from types import ModuleType

from mmeffvit.errors import UserError
from mmeffvit.utils.images import is_image
from mmeffvit.utils.text import counted, listed

from .faults import IMAGE_UNLISTED, Findings
from .formats import (
    boxes_csv,
    class_folders,
    coco,
    createml,
    cvat,
    darknet,
    kitti,
    label_studio,
    labelme,
    masks,
    object_masks,
    supervisely,
    via,
    voc,
    yolo,
)
from .records import DataSet
from .tree import TEXTS, Match, Tree


class Task(Enum):
    """What a dataset can be trained for."""

    OBJECTS = 'objects'
    LABEL_MAPS = 'label maps'
    CLASSES = 'classes'


# of each format: find(tree) returns a Match, or None, and read(*place, findings) a dataset;
# UserError if that is ambiguous, incomplete or malformed. The first that fits is used, so that
# formats that can be mistaken for another come later
FORMATS: dict[str, ModuleType] = {
    'coco': coco,
    'yolo': yolo,
    'cvat': cvat,
    'voc': voc,
    'labelme': labelme,
    'via': via,
    'label-studio': label_studio,
    'supervisely': supervisely,
    'createml': createml,
    'csv': boxes_csv,
    'darknet': darknet,
    'kitti': kitti,
    'object-masks': object_masks,
    'masks': masks,
    'classes': class_folders,
}
TASKS = {'masks': Task.LABEL_MAPS, 'classes': Task.CLASSES}
NEAREST = {  # by suffix
    '.json': 'COCO, labelme, VIA, Label Studio, Supervisely or CreateML',
    '.xml': 'Pascal VOC or CVAT',
    '.txt': 'YOLO (`class x y width height` in fractions, and data.yaml) or KITTI',
    '.csv': 'CSV with columns such as filename,xmin,ymin,xmax,ymax,class',
    'images': 'images with label maps of the same names, or a folder of images per class',
}
NOT_READ = {  # formats by what the beginning of a file has
    'the format of VoTT': rb'"boundingBox"',
    'the format of BDD100K': rb'"box2d"|"poly2d"',
    'the format of Datumaro': rb'"label_id"',
    'the format of Superb AI': rb'"annotation_type"',
    'the format of Scale AI': rb'"task_id"',
    'the format of CrowdHuman': rb'"gtboxes"',
    "the format of Hugging Face's metadata.jsonl": rb'^\{[^\n]{0,4000}"file_name"',
    'the format of WIDER FACE': rb'\.jpg\s{1,3}\d{1,6}\s{1,3}(?:\d{1,6} ){9}\d',
    'the format of DOTA, which has rotated boxes': rb'(?m)^(?:-?[\d.]{1,12} ){8}\S{1,40} [012]\s',
    'the format of VisDrone or MOT': rb'^(?:-?[\d.]{1,12},){7,9}',
    'run lengths in a table': rb'(?i)^[^\n]{0,400}(?:rle|encodedpixels)',
}
SHOWN_KINDS = 4
ABOUT = ('readme', 'license', 'licence', 'attribution', 'requirements')  # no annotations
UNREAD = ('.mat', '.gif', '.npy', '.npz', '.tfrecord', '.record', '.parquet', '.jsonl', '.odgt',
          '.manifest', '.geojson', '.ndjson')  # fmt: skip
OWN_LISTS = ('yolo', 'voc', 'labelme', 'darknet', 'kitti', 'masks')  # that use lists of splits


@dataclass(frozen=True)
class Found:
    """The format of a dataset, one of ``FORMATS``, and the others that fit, the best first."""

    format: str
    match: Match
    others: tuple['Found', ...] = ()

    @property
    def task(self) -> Task:
        """What it can be trained for."""
        return TASKS.get(self.format, Task.OBJECTS)

    def __str__(self) -> str:
        """The decision with its reason, and the second best."""
        text = f'{FORMATS[self.format].NAME}: {self.match.why}'
        for other in self.others[:1]:
            name = FORMATS[other.format].NAME
            text += f'; also {name} ({other.match.why}): --format {other.format}'
        return text

    def for_task(self, task: Task) -> 'Found':
        """The first of the formats that has this task; this one if none has."""
        return next((found for found in (self, *self.others) if found.task is task), self)

    def read(self) -> DataSet:
        """Read the dataset."""
        data = FORMATS[self.format].read(*self.match.place, Findings())
        if self.format not in OWN_LISTS and [*data.splits] == ['train']:
            divide_by_lists(data, self.match.place[0])
        if self.task is Task.OBJECTS:
            note_unused(data)
        if 'train' not in data.splits:
            raise UserError(
                f'{data.root} has images of {listed(data.splits)}, but none to train on'
            )
        return data


def divide_by_lists(data: DataSet, tree: Tree) -> None:
    """Move images to the splits of the lists that name them, if there are any to train on."""
    paths = [picture.path for picture in data.splits['train']]
    lists = voc.lists_in(tree, paths) if paths else []
    listing = voc.read_splits(lists, paths, data.findings)
    if 'train' not in listing.values():
        return
    splits = defaultdict(list)
    for picture in data.splits['train']:
        if split := listing.get(picture.path):
            splits[split].append(picture)
        else:
            data.findings.add(IMAGE_UNLISTED, picture.path)
    data.splits = dict(splits)


def note_unused(data: DataSet) -> None:
    """Add a note of images that no annotation names, in the folders of those that one does."""
    used = {picture.path for part in data.splits.values() for picture in part}
    if any(fault.left_out for fault in data.findings.counts):  # which may name them
        return
    for folder in sorted({path.parent for path in used}):
        for path in sorted({*filter(is_image, folder.iterdir())} - used):
            if not path.name.startswith('.'):
                data.findings.add(IMAGE_UNLISTED, path)


def detect(path: Path, format: str | None = None) -> Found:
    """Detect the format of a dataset.

    Args:
        path: A folder, or a file of annotations.
        format: The only one to look for.

    Raises:
        UserError: If there is none, or it is ambiguous, incomplete or malformed.
    """
    path = path.resolve() if '..' in path.parts else path.absolute()
    if not path.exists():
        raise UserError(f'{str(path)!r} does not exist')
    if path.is_file() and yolo.names_label_maps(path):
        path = path.parent
    tree = Tree(path, format)
    found: list[Found] = []
    failed: UserError | None = None  # of the first format that fits, but cannot be read
    for name in [format] if format else FORMATS:
        try:
            match: Match | None = FORMATS[name].find(tree)
        except UserError as error:
            failed = failed or (None if found else error)
            continue
        if match is not None:
            found.append(Found(name, match))
    if failed is not None:
        others = [f for f in found if f.format != 'classes']
        raise UserError(
            str(failed), *(f'  or give --format {f.format}: {f.match.why}' for f in others)
        ) from failed
    if not found:
        raise UserError(*refusal(tree, path, format))
    return replace(found[0], others=tuple(found[1:]))


def refusal(tree: Tree, path: Path, format: str | None) -> Iterator[str]:
    """What was found in a folder that has no known format, and the nearest ones."""
    wanted = f'not in {format} format' if format else 'in no known format'
    suffixes = Counter('images' if is_image(p) else p.suffix.lower() for p in tree.files)
    if tree.given is not None:
        suffixes = Counter([tree.given.suffix.lower()])
    kinds = [f'{n:,} {kind or "files without suffix"}' for kind, n in described(tree, suffixes)]
    yield f'{path} is {wanted}: it has {listed(kinds, SHOWN_KINDS) if kinds else "no files"}'
    near = [text for kind, text in NEAREST.items() if suffixes[kind]]
    if near:
        yield f'  nearest: {"; ".join(near)}'
    if unread := [kind for kind in UNREAD if suffixes[kind]]:
        yield (
            f'  {listed(unread)} are not read: convert label maps to PNG, and annotations to one '
            'of these formats'
        )
    if suffixes['images'] and (unknown := unknown_file(tree)):
        head = tree.head(unknown)
        known = (name for name, pattern in NOT_READ.items() if re.search(pattern, head))
        yield (
            f'  {unknown} may hold annotations in {next(known, "an unknown format")}: export them '
            'in one of these, see docs/data.md'
        )
    elif suffixes['images'] and not unread:
        yield (
            '  if folders hold images and label maps, give --images DIR --masks DIR; see '
            'docs/data.md'
        )
    with suppress(UserError):
        if format is None and class_folders.places(tree, is_asked=True):
            yield '  if the folders are classes, give --format classes'


def described(tree: Tree, suffixes: Counter[str]) -> Iterator[tuple[str, int]]:
    """Every kind of file and its number, text files with what a line of them has."""
    for kind, number in suffixes.most_common():
        first = unknown_file(tree, kind) if kind in ('.txt', '.csv') else None
        yield (f'{kind} {line_of(tree, first)}' if first else kind), number


def line_of(tree: Tree, path: Path) -> str:
    """What a line of a text file has, or a table's columns, in words."""
    line = tree.head(path).strip().split(b'\n')[0][:400].decode(errors='replace')
    if path.suffix.lower() == '.csv':
        return f'with the columns {listed(line.strip().split(","), 8)}'
    words = line.replace(',', ' ').split()
    integers = sum(word.lstrip('-').isdecimal() for word in words)
    if integers == len(words):
        return f'of {counted(integers, "integer")} a line'
    numbers = sum(word.lstrip('-').replace('.', '', 1).isdecimal() for word in words)
    if numbers == len(words):
        return f'of {counted(numbers, "number")} a line'
    return f'of {counted(len(words), "word")} a line'


def unknown_file(tree: Tree, *suffixes: str) -> Path | None:
    """A file that may hold annotations, one named as an image first."""
    stems = {path.stem for path in tree.images}
    paths = [tree.given] if tree.given else tree.of(*(suffixes or TEXTS))
    paths = [p for p in paths if not p.name.lower().startswith(ABOUT) and tree.head(p).strip()]
    return next((path for path in paths if path.stem in stems), paths[0] if paths else None)
