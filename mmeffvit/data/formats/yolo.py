"""YOLO's format: data.yaml, and a text file for every image with one object in a line."""

import math
import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from textwrap import indent
from typing import Any

import yaml

from mmeffvit.data import faults
from mmeffvit.data.faults import Findings
from mmeffvit.data.files import ImageFinder, images_below, read_list, read_text, spelling
from mmeffvit.data.records import DataSet, Object, Picture
from mmeffvit.data.tree import Match, Tree
from mmeffvit.errors import UserError
from mmeffvit.utils.text import listed

LOADER = getattr(yaml, 'CSafeLoader', yaml.SafeLoader)  # C is ten times faster
MAX_DEPTH = 20  # of lists in lists
NAME = 'YOLO'
SUFFIXES = ('.yaml', '.yml')
KEYS = dict(train='train', val='val', valid='val', validation='val', test='test')
# folders of the labels of images
LABELS = {'images': 'labels', 'Images': 'Labels', 'JPEGImages': 'labels'}
# text files beside labels
ORIGINAL = '_original'
NOT_LABELS = (
    'classes', 'predefined_classes', 'labels', 'names', 'train', 'trainval', 'val', 'valid', 'test',
    'readme',
)  # fmt: skip
PIXELS = 2.0  # larger numbers are not rounded fractions
NEEDS = 'data.yaml with `names: [first, second]`, `train: images/train`, `val: images/val`'


def find(tree: Tree) -> Match | None:
    """The YAML file of a dataset, which names classes."""
    paths = [p for p in tree.of(*SUFFIXES) if p.parent == tree.root]
    paths = paths or tree.sample(*SUFFIXES)  # in the folder of an archive
    named = [path for path in paths if path.name == 'data.yaml']
    named = named or [path for path in paths if 'names' in (load(path) or {})]
    found = [path for path in named if not names_label_maps(path)]
    if len(found) > 1:
        raise UserError(f'{tree.root} has several datasets: name one of {listed(found)}')
    return Match((found[0],), f'{found[0].name} with the names of classes') if found else None


def load(path: Path) -> Any:
    """The content of a YAML file; None if it is invalid, has aliases, or is not a mapping.

    Its keys are in lower case: CVAT writes its own names of splits, such as ``Train``.
    """
    text = read_text(path, Findings()) or ''
    try:
        if not is_plain(text):
            return None
        content = yaml.load(text, LOADER)
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError):  # dates, digits
        return None
    is_mapping = isinstance(content, dict)
    return {str(k).lower(): value for k, value in content.items()} if is_mapping else None


def names_label_maps(path: Path) -> bool:
    """Whether a file is data.yaml of label maps, for Ultralytics' semantic models."""
    return path.suffix.lower() in SUFFIXES and {'masks_dir', 'names'} <= (load(path) or {}).keys()


def is_plain(text: str) -> bool:
    """Whether YAML has no aliases, which could expand to any size, and no deep nesting."""
    depth = 0
    for event in yaml.parse(text, LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH or isinstance(event, yaml.AliasEvent):
            return False
    return True


def read(path: Path, findings: Findings) -> DataSet:
    """Read the dataset of a YAML file."""
    content = load(path)
    if content is None:
        raise UserError(f'{path} is not a YAML file in UTF-8 without aliases; YOLO has {NEEDS}')
    check_places(content, path)
    classes = read_names(content, path)
    keypoints = num_keypoint_values(content, path)
    base = path.parent / (content.get('path') or '').replace('\\', '/')
    roots = [path.parent, base.resolve() if '..' in base.parts and base.exists() else base]
    splits: dict[str, list[Picture]] = {}
    used: set[Path] = set()
    for key, split in KEYS.items():
        if content.get(key):
            if split in splits:
                both = ' and '.join(f'`{k}`' for k in KEYS if KEYS[k] == split and content.get(k))
                raise UserError(f'{path} has {both}, which are the same: give one')
            try:
                paths = images_of(content[key], roots, path, findings)
            except UserError as error:
                if split != 'test':
                    raise
                findings.add(faults.TEST_MISSING, error)  # Roboflow names it in any case
                continue
            splits[split] = read_pictures(paths, len(classes), used, findings, keypoints)
    if not splits.get('train'):
        raise UserError(
            f'{path} has no images to train on; YOLO has {NEEDS}',
            *indent(findings.describe(), '  ').splitlines(),
        )
    is_base = any(labels.is_relative_to(roots[-1]) for labels in used)
    find_orphans(used, splits, roots[-1] if is_base else path.parent, findings)
    return DataSet(NAME, path.parent, classes, splits, findings)


def check_places(content: dict, path: Path) -> None:
    """Reject paths in a YAML file that are not text, or for a split a list of texts."""
    for key in ('path', *KEYS):
        value = content.get(key)
        texts = value if isinstance(value, list) and key != 'path' else [value]
        if value is not None and not all(isinstance(text, str) for text in texts):
            raise UserError(f'{path}: `{key}` is {value!r:.80}, not a path; YOLO has {NEEDS}')
    for key in KEYS:
        if key != 'train' and content.get(key) and content[key] == content.get('train'):
            raise UserError(
                f'{path}: `train: {content["train"]}` and `{key}: {content[key]}` are the same '
                f'images, so that {key} measures nothing: remove the line `{key}`, and a fifth of '
                'the images is held out'
            )


def num_keypoint_values(content: dict, path: Path) -> int:
    """The numbers of a line after its box, by ``kpt_shape``."""
    shape = content.get('kpt_shape') or [0]
    if not isinstance(shape, list) or not all(type(n) is int and 0 <= n < 1000 for n in shape):
        raise UserError(f'{path}: `kpt_shape` is {shape!r:.40}; give the points and their values')
    return math.prod(shape)


def read_names(content: dict, path: Path) -> list[str]:
    """The names of the classes, in a list or by number; as many as ``nc`` says."""
    names = content.get('names')
    if isinstance(names, dict):
        by_number = {str(number): name for number, name in names.items()}  # YAML keeps '0' a text
        wanted = [str(number) for number in range(len(names))]
        if by_number.keys() != set(wanted):
            raise UserError(f'{path}: `names` has numbers {listed(names):.200}; number from 0')
        names = [by_number[number] for number in wanted]
    if not isinstance(names, list) or not names:
        raise UserError(f'{path} names no classes; YOLO has {NEEDS}')
    if content.get('nc') not in (None, len(names)):
        raise UserError(
            f'{path}: `nc` is {content["nc"]!r:.40}, but `names` has {len(names)}: correct it'
        )
    wrong = [name for name in names if type(name) not in (str, int)]
    if wrong:  # YAML parses yes, null and 2024-01-01 as other types
        raise UserError(
            f'{path}: `names` has {wrong[0]!r:.40}, which is not text: put it in quotes'
        )
    return [str(name) for name in names]


def images_of(value: Any, roots: list[Path], path: Path, findings: Findings) -> list[Path]:
    """The images of a split: of a folder, of a list in a text file, or of several of these."""
    places = value if isinstance(value, list) else [value]
    found: list[Path] = []
    for place in places:
        place = str(place).replace('\\', '/')
        found += images_at(locate(place, roots, path), roots, findings)
    return found


def locate(place: str, roots: list[Path], path: Path) -> Path:
    """Resolve a path in a YAML file; exporters often write paths that are off by one folder."""
    tried = [root / place for root in reversed(roots)]
    # Roboflow's `../train/images` is beside the file, whatever is in the folder above
    tried.insert(0 if place.startswith('../') else len(tried), path.parent / place.lstrip('./'))
    parts = Path(place).parts  # of another machine, to two folders or more
    tried += [path.parent.joinpath(*parts[i:]) for i in range(1, len(parts) - 1)]
    for candidate in tried:
        if os.path.exists(candidate):
            return candidate
    places = listed(dict.fromkeys(tried))
    raise UserError(
        f'{path}: {place!r:.200} does not exist, looked for {places:.500}: write it relative to '
        'the file, or without such images remove the line'
    )


def images_at(place: Path, roots: list[Path], findings: Findings) -> list[Path]:
    """The images in a folder or a list; paths outside of the dataset are rejected."""
    if place.is_dir():
        return images_below(place)
    if place.suffix.lower() != '.txt':
        return [place]
    found: list[Path] = []
    finder = ImageFinder(roots[-1] if roots[-1].is_dir() else roots[0], findings)
    for line in read_list(place, findings):
        image = Path(os.path.normpath(place.parent / line))
        is_inside = any(image.is_relative_to(os.path.normpath(root)) for root in roots)
        found += (
            [image] if is_inside and image.exists() else find_listed(line, roots, finder, place)
        )
    return found


def find_listed(line: str, roots: Sequence[Path], finder: ImageFinder, place: Path) -> list[Path]:
    """The image of a line in a list; none, and a finding, without one."""
    if image := next((p for root in roots if (p := resolve(line, root))), None):
        return [image]
    found = finder.find(line, ())
    if len(found) != 1:
        finder.report(line[:200], found, place)
        return []
    return found


def resolve(name: str, root: Path) -> Path | None:
    """A file of a dataset that was elsewhere when its path was written."""
    parts = [part for part in name.replace('\\', '/').split('/') if part not in ('', '.', '..')]
    tried = (root.joinpath(*parts[i:]) for i in range(len(parts)))
    return next((path for path in tried if path.is_file()), None)


def read_pictures(
    paths: list[Path], num_classes: int, used: set[Path], findings: Findings, keypoints: int = 0
) -> list[Picture]:
    """The images with their objects; images that share a label file are skipped.

    A line may have as many values of ``keypoints`` after its box. The label files are added to
    ``used``.
    """
    pictures = []
    by_labels: dict[Path, list[Path]] = defaultdict(list)
    spelled = cache(files_by_spelling)
    for path, count in Counter(paths).items():
        labels = labels_of(path)
        if not os.path.lexists(labels):
            other = spelled(labels.parent).get(spelling(labels.name))
            # not those of an image that is spelled like them
            if other and (other.stem == path.stem or not path.with_stem(other.stem).exists()):
                findings.add(faults.NAME_SPELLED, f'{other}: {path}')
                labels = other
        by_labels[labels].append(path)
        if count > 1:
            findings.add(faults.IMAGE_LISTED_TWICE, path)
    used.update(by_labels)
    for labels, images in by_labels.items():
        if not os.path.exists(labels):
            if link := dangling(labels):
                findings.add(faults.LINK_BROKEN, f'{labels}: {link} is a broken link')
            else:
                pictures += map(Picture, images)
        elif len(images) > 1:
            findings.add(faults.LABELS_SHARED, f'{labels}: {listed(images)}')
        elif (text := read_text(labels, findings)) is not None:
            objects = list(read_objects(text, labels, num_classes, findings, keypoints))
            found = [item for item in objects if item is not None]
            pictures.append(Picture(images[0], found, num_broken=len(objects) - len(found)))
    return pictures


def files_by_spelling(folder: Path) -> dict[str, Path]:
    return {spelling(path.name): path for path in folder.glob('*')}


def dangling(path: Path) -> Path | None:
    """The part of a path that is a broken link, as of annexed files that were not fetched."""
    parts = (path, *path.parents)
    return next((p for p in parts if os.path.islink(p) and not os.path.exists(p)), None)


def labels_of(path: Path) -> Path:
    """The text file of an image: in ``labels`` where the image is in ``LABELS``, or beside it."""
    beside, parts = path.with_suffix('.txt'), list(path.parts)
    places = [i for i, part in enumerate(parts[:-1]) if part in LABELS]
    if not places:
        return beside
    parts[places[-1]] = LABELS[parts[places[-1]]]
    labels = Path(*parts).with_suffix('.txt')
    return beside if not os.path.lexists(labels) and beside.is_file() else labels


def read_objects(
    text: str, path: Path, num_classes: int, findings: Findings, keypoints: int
) -> Iterator[Object | None]:
    """The object of every line; None, and a finding, for one that is broken."""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        where = f'{path}, line {number}'
        try:
            label, *values = map(float, line.split())
        except ValueError:
            label, values = math.nan, []
        if keypoints and len(values) == 4 + keypoints:
            values = values[:4]
            findings.add(faults.SHAPE_UNREAD, f'{where}: keypoints')
        fault = None
        if not label.is_integer() or not is_shape(values):
            fault, text = faults.LINE_BROKEN, f'{line:.60}'
        elif not 0 <= label < num_classes:
            fault, text = faults.CLASS_RANGE, f'{label:.0f}'[:20] + f', of {num_classes} names'
        elif max(values) > PIXELS:
            fault, text = faults.BOX_PIXELS, f'{line:.60}'
        if fault is not None:
            findings.add(fault, f'{where}: {text}')
        yield None if fault else to_object(int(label), values, where)


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


def is_original(path: Path) -> bool:
    """Whether Ultralytics has converted a label of DOTA: train_original/ is beside train/."""
    name = path.parent.name.removesuffix(ORIGINAL)
    return name != path.parent.name and path.parent.with_name(name).is_dir()


def find_orphans(
    used: set[Path], splits: dict[str, list[Picture]], root: Path, findings: Findings
) -> None:
    """Report unused label files: without an image, or with several candidates.

    An image whose only labels are in the wrong place is removed: it is no background.
    """
    finder = ImageFinder(root, findings)
    misplaced = set()
    roots = {next((p for p in path.parents if p.name == 'labels'), path.parent) for path in used}
    for folder in sorted(roots):
        for path in sorted(folder.rglob('*.txt')):
            if path in used or path.stem.lower() in NOT_LABELS or is_original(path):
                continue
            images = finder.find(path.stem, ())
            if len(images) > 1:
                findings.add(faults.IMAGE_AMBIGUOUS, f'{path}: {listed(images)}')
            elif not images:
                findings.add(faults.IMAGE_MISSING, f'the image of {path}')
            elif labels_of(images[0]) != path:
                findings.add(
                    faults.IMAGE_MISSING, f'{path}: its image should not be at {images[0]}'
                )
                if not labels_of(images[0]).exists():
                    misplaced.add(images[0])
    for split, pictures in splits.items():
        splits[split] = [p for p in pictures if p.path not in misplaced]
