"""COCO's format: one JSON file for every split, also as Roboflow exports it."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mmeffvit.data import faults
from mmeffvit.data.faults import Findings
from mmeffvit.data.files import ImageFinder
from mmeffvit.data.records import DataSet, Object, Picture, split_of, split_of_file
from mmeffvit.data.tree import Match, Tree
from mmeffvit.errors import UserError
from mmeffvit.utils.images import header_size
from mmeffvit.utils.optional import require
from mmeffvit.utils.text import counted, listed

from . import yolo
from .coco_file import (
    LISTS,
    CocoFile,
    is_box,
    is_id,
    is_name,
    is_number,
    is_number_id,
    is_score,
    is_size,
    mask_fault,
    read_lists,
)

NAME = 'COCO'
ROBOFLOW = '_annotations.coco.json'
INSTANCES = 'instances_'


def find(tree: Tree) -> Match | None:
    """The JSON file of every split."""
    paths = tree.passing(lambda path: is_coco(tree.content(path)), '.json')
    roboflow = [path for path in paths if path.name == ROBOFLOW]
    usual = [p for p in paths if p.parent in (tree.root, tree.root / 'annotations')]
    instances = [path for path in paths if path.name.startswith(INSTANCES)]  # beside keypoints
    splits: dict[str, Path] = {}
    for path in roboflow or instances or usual or paths:
        split = split_of_file(path, tree.root) or 'train'
        if split in splits:
            raise UserError(f'{splits[split]} and {path} are both for {split}: give the one to use')
        splits[split] = path
    if splits and tree.given is not None:
        splits = {'train': tree.given}
    if splits and 'train' not in splits:
        if yolo.find(tree) is not None:  # Ultralytics brings COCO's file for validation
            return None
        raise UserError(
            f'{tree.root} has {listed(splits.values())}, but no file to train on: '
            'if one is, give the file itself'
        )
    why = f'{counted(len(splits), "JSON file")} with images, annotations and categories'
    return Match((tree, splits), why) if splits else None


def is_coco(content: bytes) -> bool:
    is_panoptic = b'"segments_info"' in content
    return not is_panoptic and all(f'"{name}"'.encode() in content for name in LISTS)


def read(tree: Tree, paths: dict[str, Path], findings: Findings) -> DataSet:
    """Read the files of :func:`find`."""
    finder = ImageFinder(tree.root, findings)
    files = {split: read_split(path, finder, findings) for split, path in paths.items()}
    counts = Counter(f.categories[a['category_id']]['name'] for f in files.values()
                     for a in f.annotations if a['category_id'] in f.categories)  # fmt: skip
    classes = names_in(files['train'], counts)
    labels = {name: number for number, name in enumerate(classes)}
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
        own = split if len(files) > 1 else split_of_file(path, tree.root)
        pictures = pictures_of(file, path, own, theirs, finder, findings)
        splits[split] = list(pictures)
    if own is None:
        splits = by_folder(splits['train'], tree.root)
    if not any(splits.values()) and findings.counts[faults.IMAGE_MISSING]:
        raise UserError(
            f'{findings.named(faults.IMAGE_MISSING)}: no image was found below {tree.root}, such '
            f'as {findings.places[faults.IMAGE_MISSING][0]}. The annotations are: '
            f'{listed(f"{name} {number:,}" for name, number in counts.most_common())}. '
            f'Fix: {faults.PREFIX}'
        )
    return DataSet(NAME, tree.root, classes, splits, findings)


def by_folder(pictures: list[Picture], root: Path) -> dict[str, list[Picture]]:
    """The images of one file by the splits of their folders, if any is to train on."""
    found: dict[str, list[Picture]] = {}
    for picture in pictures:
        found.setdefault(split_of(picture.path.parent, root), []).append(picture)
    return found if 'train' in found else dict(train=pictures)


def read_split(
    path: Path,
    finder: ImageFinder,
    findings: Findings,
    lists: Sequence[str] = LISTS,
    *,
    with_masks: bool = True,
) -> CocoFile:
    """The valid records of a file, or all but their masks; an error if ``lists`` are not in it."""
    content = read_lists(path, lists)
    filled = Counter(fill_images(content['images'], path, finder))
    filled.update(fill_annotations(content))
    for row in content['annotations'] if not with_masks else ():
        if isinstance(row, dict):
            row.pop('segmentation', None)
    for field, count in filled.items():
        findings.add(faults.FILLED, f'{path}: {field} of {counted(count, "record")}')
    return CocoFile(content, lambda fault, place: findings.add(fault, f'{path}: {place}'))


def fill_images(images: list, path: Path, finder: ImageFinder) -> Iterator[str]:
    """Fill in names, as LVIS has them in addresses, and sizes that are missing, 0 or negative.

    Yields:
        The name of what was filled in.
    """
    for image in images:
        if not isinstance(image, dict):
            continue
        if image.get('file_name') is None and isinstance(image.get('coco_url'), str):
            image['file_name'] = '/'.join(image['coco_url'].split('/')[-2:])
            yield 'file_name'
        for side in ('height', 'width'):  # pandas writes 640.0
            if isinstance(image.get(side), float) and image[side].is_integer():
                image[side] = int(image[side])
        if not is_name(image.get('file_name')):
            continue
        if is_unknown(image.get('width')) or is_unknown(image.get('height')):
            found = finder.find(image['file_name'], folders_of(path, finder))
            size = header_size(found[0]) if len(found) == 1 else None
            if size is not None:
                image['height'], image['width'] = size
                yield 'width and height'
            elif not found:  # the missing image is the fault
                image['height'] = image['width'] = 1


def is_unknown(side: Any) -> bool:
    return side is None or (type(side) in (int, float) and side <= 0)


def fill_annotations(content: dict[str, list]) -> Iterator[str]:
    """Fill in ids, boxes and areas that follow from the rest, and yield the names of these."""
    sizes = {i.get('id'): (i.get('height'), i.get('width')) for i in content['images']
             if isinstance(i, dict) and is_id(i.get('id'))}  # fmt: skip
    rows = [row for row in content['annotations'] if isinstance(row, dict)]
    unused = max((row['id'] for row in rows if is_number_id(row.get('id'))), default=0)
    for row in rows:
        if row.get('id') is None or isinstance(row['id'], str):
            row['id'] = unused = unused + 1
            yield 'id'
        if row.get('bbox') in (None, []):
            key = row.get('image_id')
            box = box_of(row.get('segmentation'), sizes.get(key) if is_id(key) else None)
            if box is not None:
                row['bbox'] = box
                yield 'bbox'
        box, area = row.get('bbox'), row.get('area')
        if is_box(box) and (area is None or (is_number(area) and area <= 0 < min(box[2:]))):
            row['area'] = abs(box[2] * box[3])
            yield 'area'


def box_of(mask: Any, size: tuple | None) -> list[float] | None:
    """The box around the polygons or run lengths of a mask; None if they have none."""
    if isinstance(mask, list):
        parts = [p for p in mask if isinstance(p, list) and all(map(is_number, p))]
        x, y = ([v for p in parts for v in p[i : len(p) // 2 * 2 : 2]] for i in (0, 1))
        return [min(x), min(y), max(x) - min(x), max(y) - min(y)] if y else None
    if not mask or not size or not all(map(is_size, size)):
        return None
    if mask_fault(mask, dict(zip(('height', 'width'), size, strict=True))):
        return None
    codes = require('pycocotools.mask', 'Reading boxes of masks')
    counts = mask['counts']
    box = codes.toBbox(codes.frPyObjects(mask, *size) if isinstance(counts, list) else mask)
    return box.tolist() if box[2] else None


def folders_of(path: Path, finder: ImageFinder) -> list[Path]:
    """Where the images of an annotation file are looked for first."""
    parents = (path.parent, finder.root, finder.root / 'images')
    split_folder = path.stem.removeprefix(INSTANCES)
    return [*(p / split_folder for p in parents[1:]), *parents]


def names_in(file: CocoFile, counts: Mapping[str, int]) -> list[str]:
    """The names of the categories, in the order of the file; ``counts`` are of their objects.

    Roboflow's first category is the name of the project, the supercategory of all others without
    objects; it is ignored. COCO's person, its own supercategory, is not.
    """
    above = {c.get('supercategory') for c in file.categories.values()}
    kept = {
        key: c['name']
        for key, c in file.categories.items()
        if counts[c['name']] or c['name'] not in above - {c.get('supercategory')}
    }
    used = {annotation['category_id'] for annotation in file.annotations}
    twice = {name for name, count in Counter(kept.values()).items() if count > 1}
    return [name for key, name in kept.items() if key in used or name not in twice & above]


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
    folders = folders_of(path, finder)
    for key, image in file.images.items():
        found = finder.find(image['file_name'], folders, split)
        where = f'{path}, image {key}'
        if len(found) != 1:
            finder.report(image['file_name'], found, where)
        elif found[0] in seen:
            findings.add(faults.IMAGE_LISTED_TWICE, f'{where}: {image["file_name"]}')
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
    if isinstance(mask, list):
        filled = [part for part in mask if part != []]  # boxes may have [[]]
        whole = [part for part in filled if not isinstance(part, list) or len(part) >= 6]
        if whole and len(whole) < len(filled):
            findings.add(faults.MASK_PART, where)
        mask = whole or filled or None
    if mask is not None and (found := mask_fault(mask, image)):
        fault, text = found
        findings.add(fault, f'{where}: {text}')
        return None
    label = labels[annotation['category_id']]
    crowd = bool(annotation.get('iscrowd') or annotation.get('ignore') == 1)  # mmdet drops these
    score = annotation.get('score')
    score = float(score) if is_score(score) else 1.0
    return Object(label, tuple(annotation['bbox']), where, mask, is_crowd=crowd, score=score)
