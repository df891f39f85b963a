"""COCO's format: one JSON file for every split, also as Roboflow exports it."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mmeffvit.checks.data import report as kinds
from mmeffvit.checks.data.coco import LISTS, CocoFile, mask_fault
from mmeffvit.checks.data.report import Kind, Report
from mmeffvit.errors import UserError
from mmeffvit.utils.reading import read_file, read_json
from mmeffvit.utils.text import listed

from .faults import (
    CATEGORY_UNKNOWN,
    IMAGE_AMBIGUOUS,
    IMAGE_LISTED_TWICE,
    IMAGE_MISSING,
    MASK_BROKEN,
    POLYGON_SHORT,
    RECORD_BROKEN,
    Findings,
)
from .files import ImageFinder
from .records import SPLIT_NAMES, DataSet, Object, Picture, split_of

NAME = 'COCO'
ROBOFLOW = '_annotations.coco.json'
OURS = {kinds.RECORD_INCOMPLETE: RECORD_BROKEN}  # what is read without


def find(path: Path) -> dict[str, Path] | None:
    """The JSON file of every split; None if it is of another format.

    Raises:
        UserError: If there are several for a split.
    """
    if path.is_file():
        return {'train': path} if path.suffix == '.json' and is_coco(path) else None
    paths = [*path.glob(ROBOFLOW), *path.glob(f'*/{ROBOFLOW}')]
    if not paths:
        paths = [*path.glob('*.json'), *path.glob('annotations/*.json')]
        paths = [p for p in paths if is_coco(p)]
    splits: dict[str, Path] = {}
    for p in sorted(paths):
        split = split_of(p.parent, path) if p.name == ROBOFLOW else split_in(p.stem)
        if split in splits:
            raise UserError(f'{splits[split]} and {p} are both to {split}: name the one to use')
        splits[split] = p
    if splits and 'train' not in splits:
        raise UserError(f'{path} has {listed(splits.values())}, but no file to train on')
    return splits or None


def is_coco(path: Path) -> bool:
    content = read_file(path)
    return all(f'"{name}"'.encode() in content for name in LISTS)


def split_in(stem: str) -> str:
    """The split that the name of a file contains, as in ``instances_val2017``; else 'train'."""
    words = [w for w in stem.lower().replace('-', '_').split('_') if w in SPLIT_NAMES]
    return SPLIT_NAMES[words[-1]] if words else 'train'


def read(paths: dict[str, Path], findings: Findings) -> DataSet:
    """Read a data set.

    Args:
        paths: The JSON file of every split.
        findings: Receives what is broken.

    Raises:
        UserError: If a file is not COCO's, or they have different categories.
    """
    root = root_of(paths['train'])
    files = {split: read_split(path, findings) for split, path in paths.items()}
    classes = names_in(files['train'], files)
    labels = {name: number for number, name in enumerate(classes)}
    finder = ImageFinder(root)
    splits = {}
    for split, file in files.items():
        path = paths[split]
        theirs = {key: labels.get(c['name']) for key, c in file.categories.items()}
        strangers = [c['name'] for c in file.categories.values() if c['name'] not in labels]
        used = {a['category_id'] for a in file.annotations}
        if any(theirs[key] is None for key in used & theirs.keys()):
            raise UserError(
                f'{path} has categories that {paths["train"]} has not: {listed(strangers)}'
            )
        pictures = pictures_of(
            file, path, split if len(files) > 1 else None, theirs, finder, findings
        )
        splits[split] = list(pictures)
    return DataSet(NAME, root, classes, splits, findings)


def root_of(path: Path) -> Path:
    """The folder of the data set with this file."""
    inner = path.name == ROBOFLOW and path.parent.name in SPLIT_NAMES
    return path.parent.parent if inner or path.parent.name == 'annotations' else path.parent


class Forward(Report):
    """Hands on what is found in one file."""

    def __init__(self, path: Path, findings: Findings) -> None:
        super().__init__('', str(path))
        self.findings = findings

    def add(self, kind: Kind, example: object) -> None:
        self.findings.add(OURS.get(kind, kind), f'{self.source}: {example}')


def read_split(path: Path, findings: Findings) -> CocoFile:
    """The valid records of a file; what every program leaves out or computes is filled in."""
    content = read_json(path)
    absent = [
        name
        for name in LISTS
        if not isinstance(content, dict) or not isinstance(content.get(name), list)
    ]
    if absent:
        raise UserError(f'{path} has no list of {", ".join(absent)}: it is not in COCO form')
    for annotation in filter(lambda record: isinstance(record, dict), content['annotations']):
        box = annotation.get('bbox')
        if annotation.get('area') is None and isinstance(box, list) and len(box) == 4:
            annotation['area'] = abs(box[2] * box[3]) if all_numbers(box) else None
    return CocoFile(content, Forward(path, findings))


def all_numbers(values: list) -> bool:
    return all(type(value) in (int, float) for value in values)


def names_in(file: CocoFile, files: dict[str, CocoFile]) -> list[str]:
    """The names of the categories, in the order of the file.

    Roboflow's first category is the name of the project, above all others and without objects: it
    is none.
    """
    used = Counter(f.categories[a['category_id']]['name']
                   for f in files.values() for a in f.annotations
                   if a['category_id'] in f.categories)  # fmt: skip
    above = {c.get('supercategory') for c in file.categories.values()}
    names = [c['name'] for c in file.categories.values()]
    return [name for name in names if used[name] or name not in above]


def pictures_of(
    file: CocoFile,
    path: Path,
    split: str | None,
    labels: dict[Any, int],
    finder: ImageFinder,
    findings: Findings,
) -> Iterator[Picture]:
    """Every image that exists with its objects."""
    by_image: dict[Any, list[Object]] = {key: [] for key in file.images}
    for annotation in file.annotations:
        where = f'{path}, annotation {annotation["id"]}'
        image = file.images.get(annotation['image_id'])
        if annotation['category_id'] not in labels or image is None:
            if annotation['image_id'] not in file.image_ids - file.images.keys():
                findings.add(CATEGORY_UNKNOWN, where)
            continue
        if item := to_object(annotation, image, labels, where, findings):
            by_image[annotation['image_id']].append(item)
    seen = set()
    split_folder = path.stem.removeprefix('instances_')
    parents = (path.parent, finder.root, finder.root / 'images')
    folders = [*(p / split_folder for p in parents[1:]), *parents]
    for key, image in file.images.items():
        found = finder.find(image['file_name'], folders, split)
        where = f'{path}, image {key}: {image["file_name"]}'
        if len(found) != 1:
            kind = IMAGE_AMBIGUOUS if found else IMAGE_MISSING
            findings.add(kind, where + (f' is one of {listed(found)}' if found else ''))
        elif found[0] in seen:
            findings.add(IMAGE_LISTED_TWICE, where)
        else:
            seen.add(found[0])
            yield Picture(found[0], by_image[key], recorded=(image['height'], image['width']))


def to_object(
    annotation: dict, image: dict, labels: dict[Any, int], where: str, findings: Findings
) -> Object | None:
    """An annotation; None, and a finding, if its mask is broken."""
    mask = annotation.get('segmentation') or None
    if mask is not None and (found := mask_fault(mask, image)):
        kind = POLYGON_SHORT if found[0] is kinds.MASK_SHORT else MASK_BROKEN
        findings.add(kind, f'{where}: {found[1]}')
        return None
    label = labels[annotation['category_id']]
    crowd = bool(annotation.get('iscrowd'))
    return Object(label, tuple(annotation['bbox']), where, mask, is_crowd=crowd)
