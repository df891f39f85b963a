"""Pascal VOC's format: an XML file for every image, in a folder or as a config lists them."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

from mmeffvit.data import faults
from mmeffvit.data.faults import Findings, Report
from mmeffvit.data.files import ImageFinder, read_list, read_text
from mmeffvit.data.records import SPLIT_NAMES, DataSet, Object, Picture, Size, split_of
from mmeffvit.data.tree import Match, Tree
from mmeffvit.errors import UserError
from mmeffvit.utils.files import read_file
from mmeffvit.utils.text import counted, listed

from .coco_file import MAX_PIXELS, box_fault

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
        raise UserError(text, *findings.describe().splitlines())
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
    text = read_text(path, findings)
    if text is None:
        return None
    try:
        tree = ElementTree.fromstring(text.encode())
        size = recorded_size(tree, path, findings)
    except (ElementTree.ParseError, LookupError, ValueError, RecursionError) as error:
        findings.add(faults.FILE_BROKEN, f'{path}: {error}')  # it names the line
        return None
    if tree.tag != 'annotation':
        return None
    file_name = tree.findtext('filename') or path.stem
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
    objects = list(read_objects(tree, text, path, numbers, findings))
    found = [item for item in objects if item is not None]
    num_broken = len(objects) - len(found)
    return Picture(images[0], found, recorded=size, num_broken=num_broken)


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
            is_difficult = (entry.findtext('difficult') or '').strip() == '1'
            if entry.findtext('deleted') == '1':
                continue
            name, (left, top, right, bottom) = object_in(entry)
            mask = [outline] if (outline := outline_in(entry)) else None
        except ValueError as error:
            findings.add(faults.RECORD_BROKEN, f'{where}: {error}')
            yield None
            continue
        label = numbers.setdefault(name, len(numbers))
        box = (left, top, right - left, bottom - top)
        yield Object(label, box, where, mask, is_crowd=is_difficult)


def read_names(path: str | Path) -> list[str]:
    """The lines of a list, read as in mmengine."""
    try:
        return [line.rstrip('\r') for line in read_file(path).decode().splitlines()]
    except UnicodeDecodeError as error:
        raise UserError(f'{path} is not a text file: {error}') from error


def check_files(
    files: Iterator[tuple[str, Path]], classes: Collection[str], report: Report
) -> dict[str, Size | None]:
    """Check every object in every file.

    Args:
        files: Names of images, each with its XML file.
        classes: The classes of the config.
        report: Receives the faults and the table of counts.

    Returns:
        The recorded size for every name whose file can be read.
    """
    sizes: dict[str, Size | None] = {}
    images: Counter[str] = Counter()
    objects: Counter[str] = Counter()
    for name, path in files:
        if name in sizes:
            report.add(faults.IMAGE_LISTED_TWICE, name)
            continue
        try:
            root = ElementTree.fromstring(read_file(path))
            sizes[name] = size_of(root)
            found = [object_in(entry, as_mmdet=True) for entry in root.findall('object')]
        except (ElementTree.ParseError, LookupError) as error:  # the line, or the encoding
            report.add(faults.FILE_BROKEN, f'{path} ({error})')
        except (UserError, RecursionError) as error:
            report.add(faults.FILE_BROKEN, error)
        except ValueError as error:
            report.add(faults.RECORD_BROKEN, f'{error} in {path}')
        else:
            report.num_records += len(found)
            size = sizes[name]
            image = dict(height=size[0], width=size[1]) if size else None
            for label, box in found:
                if fault := box_fault(box, image):
                    report.add(fault, f'{label} {box} in {path}')
                if label not in classes:
                    report.add(faults.CLASS_IGNORED, repr(label))
            images.update({label for label, _ in found})
            objects.update(label for label, _ in found)
            if not found:
                report.add(faults.WITHOUT_OBJECTS, path)
    report.count(classes, images=images, annotations=objects)
    return sizes


def size_of(root: ElementTree.Element) -> Size | None:
    """Height and width, or None if mmdet reads them from the image."""
    size = root.find('size')
    if size is None:
        return None
    height, width = (int(number_in(size, side, integer=True)) for side in ('height', 'width'))
    if min(height, width) < 1 or height * width > MAX_PIXELS:
        raise ValueError(f'height {height}, width {width}')
    return height, width


def object_in(entry: ElementTree.Element, *, as_mmdet: bool = False) -> tuple[str, list[float]]:
    """Name and corners of an object; ``as_mmdet``, which stops at some, rejects these."""
    name, box = (entry.findtext('name') or '').strip(), entry.find('bndbox')
    outline = None if as_mmdet else outline_in(entry)
    if not name or (box is None and not outline):
        raise ValueError(f'an object without {"bndbox" if name else "name"}')
    if as_mmdet and entry.find('difficult') is not None:  # labelme writes it empty
        number_in(entry, 'difficult', integer=True)
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
