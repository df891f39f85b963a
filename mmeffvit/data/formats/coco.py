"""COCO's format: one JSON file for every split, also as Roboflow exports it."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mmeffvit.data import faults
from mmeffvit.data.faults import Findings
from mmeffvit.data.files import ImageFinder
from mmeffvit.data.records import SPLIT_NAMES, DataSet, Object, Picture, split_of
from mmeffvit.errors import UserError
from mmeffvit.utils.files import read_file
from mmeffvit.utils.text import listed

from .coco_file import LISTS, CocoFile, is_box, is_id, is_score, mask_fault, read_coco

NAME = 'COCO'
ROBOFLOW = '_annotations.coco.json'


def find(path: Path) -> dict[str, Path] | None:
    """The JSON file of every split; None if it is of another format."""
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
            raise UserError(f'{splits[split]} and {p} are both for {split}: give the one to use')
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
    """Read the files of :func:`find`."""
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
                f'{path} has categories that {paths["train"]} does not have: {listed(strangers)}'
            )
        pictures = pictures_of(
            file, path, split if len(files) > 1 else None, theirs, finder, findings
        )
        splits[split] = list(pictures)
    return DataSet(NAME, root, classes, splits, findings)


def root_of(path: Path) -> Path:
    """The folder of the dataset with this file."""
    inner = path.name == ROBOFLOW and path.parent.name in SPLIT_NAMES
    return path.parent.parent if inner or path.parent.name == 'annotations' else path.parent


def read_split(path: Path, findings: Findings) -> CocoFile:
    """The valid records of a file; an error if it is not in COCO format."""
    try:
        return read_coco(
            path, lambda fault, place: findings.add(fault, f'{path}: {place}'), complete=fill_area
        )
    except UserError as error:
        raise UserError(f'{error}: it is not in COCO format') from error


def fill_area(annotation: dict[str, Any], number: int) -> None:
    """Fill in the area, which some programs do not write."""
    box = annotation.get('bbox')
    if annotation.get('area') is None and isinstance(box, list) and len(box) == 4:
        annotation['area'] = abs(box[2] * box[3]) if is_box(box) else None


def names_in(file: CocoFile, files: dict[str, CocoFile]) -> list[str]:
    """The names of the categories, in the order of the file.

    Roboflow's first category is the name of the project, the supercategory of all others without
    objects; it is ignored.
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
    """Every existing image with its objects."""
    by_image: dict[Any, list[Object]] = {key: [] for key in file.images}
    num_annotations = Counter(
        annotation['image_id']
        for annotation in file.content['annotations']
        if isinstance(annotation, dict) and is_id(annotation.get('image_id'))
    )
    for annotation in file.annotations:
        where = f'{path}, annotation {annotation["id"]}'
        image = file.images.get(annotation['image_id'])
        if image is None:
            if annotation['image_id'] not in file.image_ids:  # otherwise the image has the fault
                findings.add(faults.IMAGE_UNKNOWN, where)
            continue
        if annotation['category_id'] not in labels:
            findings.add(faults.CATEGORY_UNKNOWN, where)
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
            findings.add(
                finder.fault(image['file_name'], found),
                where + (f' is one of {listed(found)}' if found else ''),
            )
        elif found[0] in seen:
            findings.add(faults.IMAGE_LISTED_TWICE, where)
        else:
            seen.add(found[0])
            objects, size = by_image[key], (image['height'], image['width'])
            num_broken = num_annotations[key] - len(objects)
            yield Picture(found[0], objects, recorded=size, num_broken=num_broken)


def to_object(
    annotation: dict, image: dict, labels: dict[Any, int], where: str, findings: Findings
) -> Object | None:
    """An annotation; None, and a finding, if its mask is broken."""
    mask = annotation.get('segmentation') or None
    if mask is not None and (found := mask_fault(mask, image)):
        fault, text = found
        findings.add(fault, f'{where}: {text}')
        return None
    label = labels[annotation['category_id']]
    crowd = bool(annotation.get('iscrowd'))
    score = annotation.get('score')
    score = float(score) if is_score(score) else 1.0
    return Object(label, tuple(annotation['bbox']), where, mask, is_crowd=crowd, score=score)
