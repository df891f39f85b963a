"""YOLO's format: data.yaml, and a text file for every image with one object in a line."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from mmeffvit.errors import UserError
from mmeffvit.utils.text import listed

from .faults import (
    BOX_PIXELS,
    CLASS_RANGE,
    IMAGE_AMBIGUOUS,
    IMAGE_LISTED_TWICE,
    IMAGE_MISSING,
    LINE_BROKEN,
    Findings,
)
from .files import ImageFinder, images_below, read_list, read_text
from .records import DataSet, Object, Picture

NAME = 'YOLO'
ENDINGS = ('.yaml', '.yml')
KEYS = dict(train='train', val='val', valid='val', test='test')
NOT_LABELS = ('classes', 'train', 'val', 'valid', 'test', 'README')  # text files beside labels
PIXELS = 2.0  # a number above it is no fraction that was rounded or cut off
NEEDS = 'data.yaml with `names: [first, second]`, `train: images/train`, `val: images/val`'


def find(path: Path) -> Path | None:
    """The YAML file of a data set; None if it is of another format.

    Raises:
        UserError: If there are labels but no YAML file, or several.
    """
    if path.is_file():
        return path if path.suffix.lower() in ENDINGS else None
    if (path / 'data.yaml').is_file():
        return path / 'data.yaml'
    found = [p for p in sorted(path.glob('*')) if p.suffix.lower() in ENDINGS]
    found = [p for p in found if 'names' in (load(p) or {})]
    if len(found) > 1:
        raise UserError(f'{path} has several data sets: name one of {listed(found)}')
    if not found and has_labels(path):
        raise UserError(f'{path} has labels as YOLO has them, but no names: write {NEEDS}')
    return found[0] if found else None


def load(path: Path) -> Any:
    """The content of a YAML file; None if it is not one, or holds no names and values."""
    text = read_text(path, Findings())
    try:
        content = yaml.safe_load(text or '')
    except (yaml.YAMLError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def has_labels(folder: Path) -> bool:
    """Whether a folder named labels has text files."""
    labels = [p for p in (folder / 'labels', *folder.glob('*/labels')) if p.is_dir()]
    return any(next(place.rglob('*.txt'), None) for place in labels)


def read(path: Path, findings: Findings) -> DataSet:
    """Read a data set.

    Args:
        path: The YAML file.
        findings: Receives what is broken.

    Raises:
        UserError: If the YAML file has no names or no images.
    """
    content = load(path)
    if content is None:
        raise UserError(f'{path} is not a YAML file in UTF-8; YOLO has {NEEDS}')
    classes = read_names(content, path)
    splits: dict[str, list[Picture]] = {}
    for key, split in KEYS.items():
        if content.get(key):
            paths = images_of(content[key], content.get('path'), path, findings)
            splits[split] = read_pictures(paths, len(classes), findings)
    if not splits.get('train'):
        raise UserError(f'{path} has no images to train on; YOLO has {NEEDS}')
    pictures = [picture for part in splits.values() for picture in part]
    find_orphans(pictures, path.parent, findings)
    return DataSet(NAME, path.parent, classes, splits, findings)


def read_names(content: dict, path: Path) -> list[str]:
    """The names of the classes, in a list or by number.

    Raises:
        UserError: If there are none, or not as many as ``nc`` says.
    """
    names = content.get('names')
    if isinstance(names, dict):
        wanted = list(range(len(names)))
        if sorted(names, key=str) != sorted(wanted, key=str):
            raise UserError(f'{path}: `names` has numbers {listed(names)}; number from 0')
        names = [names[i] for i in wanted]
    if not isinstance(names, list) or not names:
        raise UserError(f'{path} names no classes; YOLO has {NEEDS}')
    if content.get('nc') not in (None, len(names)):
        raise UserError(
            f'{path}: `nc` is {content["nc"]}, but `names` has {len(names)}: correct it'
        )
    return [str(name) for name in names]


def images_of(value: Any, base: Any, path: Path, findings: Findings) -> list[Path]:
    """The images of a split: of a folder, of a list in a text file, or of several of these."""
    places = value if isinstance(value, list) else [value]
    found: list[Path] = []
    for place in places:
        found += images_at(locate(str(place), base, path), findings)
    return found


def locate(place: str, base: Any, path: Path) -> Path:
    """What a path of a YAML file means; exporters write many that are wrong by a folder.

    Raises:
        UserError: If nothing is there.
    """
    bases = [path.parent / str(base)] if base else []
    tried = [folder / place for folder in (*bases, path.parent)]
    tried += [path.parent / place.lstrip('./')]  # Roboflow's `../train/images` is beside the file
    for candidate in tried:
        if candidate.exists():
            return candidate
    raise UserError(
        f'{path}: {place!r} does not exist, looked for {listed(dict.fromkeys(tried))}: write it '
        'relative to the file'
    )


def images_at(place: Path, findings: Findings) -> list[Path]:
    if place.is_dir():
        return images_below(place)
    if place.suffix.lower() != '.txt':
        return [place]
    return [place.parent / line for line in read_list(place, findings)]


def read_pictures(paths: list[Path], num_classes: int, findings: Findings) -> list[Picture]:
    pictures = []
    seen = set()
    for path in paths:
        if path in seen:
            findings.add(IMAGE_LISTED_TWICE, path)
            continue
        seen.add(path)
        labels = labels_of(path)
        if not labels.exists():
            pictures.append(Picture(path))
            continue
        text = read_text(labels, findings)
        if text is not None:
            objects = list(read_objects(text, labels, num_classes, findings))
            pictures.append(Picture(path, objects))
    return pictures


def labels_of(path: Path) -> Path:
    """The text file of an image: in ``labels`` where the image is in ``images``, else beside it."""
    parts = list(path.parts)
    if 'images' in parts[:-1]:
        parts[len(parts) - 1 - parts[::-1].index('images')] = 'labels'
    return Path(*parts).with_suffix('.txt')


def read_objects(text: str, path: Path, num_classes: int, findings: Findings) -> Iterator[Object]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        where = f'{path}, line {number}'
        try:
            label, *values = map(float, line.split())
        except ValueError:
            label, values = math.nan, []
        if not label.is_integer() or not is_shape(values):
            findings.add(LINE_BROKEN, f'{where}: {line:.60}')
        elif not 0 <= label < num_classes:
            findings.add(CLASS_RANGE, f'{where}: {int(label)}, of {num_classes} names')
        elif max(values) > PIXELS:
            findings.add(BOX_PIXELS, f'{where}: {line:.60}')
        else:
            yield to_object(int(label), values, where)


def is_shape(values: list[float]) -> bool:
    """Whether it is a box, or a polygon of three or more points."""
    count = len(values)
    return (count == 4 or (count >= 6 and count % 2 == 0)) and all(map(math.isfinite, values))


def to_object(label: int, values: list[float], where: str) -> Object:
    if len(values) == 4:
        x, y, width, height = values
        box = (x - width / 2, y - height / 2, width, height)
        return Object(label, box, where, is_relative=True)
    left, top = min(values[0::2]), min(values[1::2])
    box = (left, top, max(values[0::2]) - left, max(values[1::2]) - top)
    return Object(label, box, where, mask=[values], is_relative=True)


def find_orphans(pictures: list[Picture], root: Path, findings: Findings) -> None:
    """Report label files that belong to no image, or to no certain one."""
    used = {labels_of(picture.path) for picture in pictures}
    finder = ImageFinder(root)
    for folder in sorted({labels_root(path) for path in used}):
        for path in sorted(folder.rglob('*.txt')):
            if path in used or path.stem in NOT_LABELS:
                continue
            images = finder.find(path.stem, ())
            if len(images) > 1:
                findings.add(IMAGE_AMBIGUOUS, f'{path}: {listed(images)}')
            elif not images:
                findings.add(IMAGE_MISSING, f'the image of {path}')
            elif labels_of(images[0]) != path:
                findings.add(IMAGE_MISSING, f'{path}: its image should not be at {images[0]}')


def labels_root(path: Path) -> Path:
    """The folder ``labels`` above a label file, else its own."""
    return next((p for p in path.parents if p.name == 'labels'), path.parent)
