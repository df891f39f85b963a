"""Pascal VOC's format: an XML file for every image."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from xml.etree import ElementTree

from mmeffvit.data import faults
from mmeffvit.data.faults import Findings
from mmeffvit.data.files import ImageFinder, read_list, read_text
from mmeffvit.data.records import SPLIT_NAMES, DataSet, Object, Picture, Size, split_of
from mmeffvit.data.tree import Match, Tree
from mmeffvit.errors import UserError
from mmeffvit.utils.text import counted, listed

from .coco_file import MAX_PIXELS

NAME = 'Pascal VOC'
CORNERS = ('xmin', 'ymin', 'xmax', 'ymax')
LISTS = ('trainval.txt', *(f'{name}.txt' for name in SPLIT_NAMES))
ROOT = re.compile(rb'<annotation(?![\w.-])')
OBJECT = re.compile(r'<object(?![\w.-])')


def find(tree: Tree) -> Match | None:
    """The XML files with annotations of one image each."""
    if not any(ROOT.search(tree.head(path)[:4096]) for path in tree.sample('.xml')):
        return None
    paths = tree.of('.xml')
    return Match(
        (tree, paths), f'{counted(len(paths), "XML file")} with the annotation of an image'
    )


def read(place: tuple[Tree, list[Path]], findings: Findings) -> DataSet:
    """Read the files of :func:`find`; the classes of the objects are sorted, since VOC has no
    list of them.
    """
    tree, paths = place
    root = tree.root
    finder = ImageFinder(root, findings)
    lists = read_lists(tree, findings)
    splits: dict[str, list[Picture]] = {}
    numbers: dict[str, int] = {}  # of the classes, in the order they appear
    used: set[Path] = set()
    for path in paths:
        split = lists.get(path.stem, '') if lists else split_of(path.parent, root)
        picture = read_picture(path, root, finder, numbers, used, findings) if split else None
        if picture is not None:
            splits.setdefault(split, []).append(picture)
    classes = sorted(numbers)
    if not splits.get('train') or not classes:
        text = f'{root}: no object in any .xml file to train on'
        raise UserError(text, *indent(findings.describe(), '  ').splitlines())
    labels = {numbers[name]: label for label, name in enumerate(classes)}
    data = DataSet(NAME, root, classes, splits, findings)
    for item in data.objects():
        item.label = labels[item.label]
    return data


def read_lists(tree: Tree, findings: Findings, kind: str = 'Main') -> dict[str, str]:
    """The split of every name, where the dataset has lists of them in ``ImageSets``."""
    paths = tree.named(*LISTS)
    return read_splits([p for p in paths if p.parts[-3:-1] == ('ImageSets', kind)], findings)


def read_splits(paths: Sequence[Path], findings: Findings) -> dict[str, str]:
    """The split of every name in some of ``LISTS``.

    ``trainval.txt`` is not used beside a list to train on; else it is one, without the names in
    the others.
    """
    trained = {p.parent for p in paths if SPLIT_NAMES.get(p.stem.lower()) == 'train'}
    found: dict[str, str] = {}
    for path in paths:
        split = SPLIT_NAMES.get(path.stem.lower())
        if split or path.parent not in trained:
            names = (line.split()[0] for line in read_list(path, findings))
            found.update(dict.fromkeys(names, split or 'train'))
    return found


def read_picture(
    path: Path,
    root: Path,
    finder: ImageFinder,
    numbers: dict[str, int],
    used: set[Path],
    findings: Findings,
) -> Picture | None:
    """The image and the objects of an XML file; None, and a finding, if it has none.

    Args:
        path: The file.
        root: The folder of the dataset.
        finder: Finds the image.
        numbers: The classes by name, which are added to.
        used: The images of the files before, which are added to.
        findings: Receives faults.
    """
    parsed = parse(path, findings)
    if parsed is None or parsed.tree.tag != 'annotation':
        return None
    file_name = parsed.tree.findtext('filename') or path.stem
    folders = [path.parent, *(path.parent.parent / n for n in ('JPEGImages', 'images')), root]
    images = finder.find(file_name, folders) or finder.find(path.stem, folders)
    if len(images) == 1 and images[0] in used:  # a copied XML file keeps its old name
        images = finder.find(path.stem, folders)
    if len(images) == 1 and images[0] in used:
        findings.add(faults.IMAGE_LISTED_TWICE, f'{file_name} of {path}')
        return None
    if len(images) != 1:
        kind = finder.fault(file_name, images)
        findings.add(kind, f'{file_name} of {path}' + (f': {listed(images)}' if images else ''))
        return None
    used.add(images[0])
    return parsed.picture(images[0], numbers, findings)


@dataclass(frozen=True)
class Parsed:
    """A valid XML file."""

    path: Path
    tree: ElementTree.Element
    text: str
    size: Size | None

    def picture(self, image: Path, numbers: dict[str, int], findings: Findings) -> Picture:
        """The image with its objects; their classes are added to ``numbers``."""
        objects = list(read_objects(self.tree, self.text, self.path, numbers, findings))
        found = [item for item in objects if item is not None]
        num_broken = len(objects) - len(found)
        return Picture(image, found, recorded=self.size, num_broken=num_broken)


def parse(path: Path, findings: Findings) -> Parsed | None:
    """An XML file; None, and a finding, if it is invalid."""
    text = read_text(path, findings)
    if text is None:
        return None
    try:
        tree = ElementTree.fromstring(text.encode())
        size = recorded_size(tree, path, findings)
    except (ElementTree.ParseError, LookupError, ValueError, RecursionError) as error:
        findings.add(faults.FILE_BROKEN, f'{path}: {error}')  # it names the line
        return None
    return Parsed(path, tree, text, size)


def recorded_size(tree: ElementTree.Element, path: Path, findings: Findings) -> Size | None:
    """Height and width; None, and a note, if they are empty, 0 or negative."""
    size = tree.find('size')
    texts = [(size.findtext(side) or '').strip() for side in ('height', 'width')] if size else []
    if any(re.fullmatch(r'|0+|-\d+', text) for text in texts):
        findings.add(faults.FILLED, f'{path}: width and height')
        return None
    return size_of(tree)


def read_objects(
    tree: ElementTree.Element, text: str, path: Path, numbers: dict[str, int], findings: Findings
) -> Iterator[Object | None]:
    """The objects; None, and a finding, for one that is broken."""
    entries = tree.findall('object')
    lines = [n for n, line in enumerate(text.split('\n'), 1) for _ in OBJECT.finditer(line)]
    known = len(lines) == len(entries)  # not with objects in comments
    for number, entry in enumerate(entries):
        where = f'{path}, line {lines[number]}' if known else str(path)
        try:
            if entry.findtext('deleted') == '1':
                continue
            difficult = (entry.findtext('difficult', '0') or '').strip()
            if not difficult.isdecimal():
                findings.add(faults.FILLED, f'{where}: difficult')
            name, (left, top, right, bottom) = object_in(entry)
            if entry.find('bndbox') is None:
                findings.add(faults.FILLED, f'{where}: bndbox')
            mask = [outline] if (outline := outline_in(entry)) else None
        except ValueError as error:
            findings.add(faults.RECORD_BROKEN, f'{where}: {error}')
            yield None
            continue
        label = numbers.setdefault(name, len(numbers))
        box = (left, top, right - left, bottom - top)
        yield Object(label, box, where, mask, is_crowd=difficult == '1')


def size_of(root: ElementTree.Element) -> Size | None:
    """Height and width, or None if mmdet reads them from the image."""
    size = root.find('size')
    if size is None:
        return None
    height, width = (int(number_in(size, side, integer=True)) for side in ('height', 'width'))
    if min(height, width) < 1 or height * width > MAX_PIXELS:
        raise ValueError(f'height {height}, width {width}')
    return height, width


def object_in(entry: ElementTree.Element) -> tuple[str, list[float]]:
    """Name and corners of an object."""
    name, box = (entry.findtext('name') or '').strip(), entry.find('bndbox')
    outline = outline_in(entry)
    if not name or (box is None and not outline):
        raise ValueError(f'an object without {"bndbox" if name else "name"}')
    if box is None:
        x, y = outline[0::2], outline[1::2]
        return name, [min(x), min(y), max(x), max(y)]
    return name, [number_in(box, corner) for corner in CORNERS]


def outline_in(entry: ElementTree.Element) -> list[float]:
    """The polygon of an object, as LabelMe's XML has it: x and y of every point."""
    return [number_in(point, axis) for point in entry.iterfind('polygon/pt') for axis in 'xy']


def number_in(parent: ElementTree.Element, tag: str, *, integer: bool = False) -> float:
    text = parent.findtext(tag)
    try:
        value = int(text) if integer else float(text)
        if abs(value) < MAX_PIXELS:
            return value
    except (TypeError, ValueError):
        pass
    raise ValueError(f'{parent.tag} with {tag} {text!r:.40}')
