"""Pascal VOC's format: an XML file for every image, in a folder or as a config lists them."""

import re
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from xml.etree import ElementTree

from mmeffvit.data import faults
from mmeffvit.data.faults import Findings, Report
from mmeffvit.data.files import ImageFinder, read_list, read_text
from mmeffvit.data.records import SPLIT_NAMES, DataSet, Object, Picture, Size, split_of
from mmeffvit.errors import UserError
from mmeffvit.utils.files import read_file
from mmeffvit.utils.images import is_regular
from mmeffvit.utils.text import listed

from .coco_file import MAX_PIXELS, box_fault

NAME = 'Pascal VOC'
CORNERS = ('xmin', 'ymin', 'xmax', 'ymax')
LISTS = 'ImageSets/Main'
OBJECT = re.compile(r'<object(?![\w.-])')


def find(path: Path) -> Path | None:
    """The folder if it has XML files with annotations, else None."""
    if not path.is_dir():
        return None
    first = next(filter(is_regular, path.rglob('*.xml')), None)
    if first is None or b'<annotation' not in read_file(first)[:4096]:
        return None
    return path


def read(root: Path, findings: Findings) -> DataSet:
    """Read a folder; the classes of its objects are sorted, since VOC has no list of them."""
    finder = ImageFinder(root)
    lists = read_lists(root, findings)
    splits: dict[str, list[Picture]] = {}
    numbers: dict[str, int] = {}  # of the classes, in the order they appear
    for path in sorted(root.rglob('*.xml')):
        split = lists.get(path.stem, '') if lists else split_of(path.parent, root)
        picture = read_picture(path, root, finder, numbers, findings) if split else None
        if picture is not None:
            splits.setdefault(split, []).append(picture)
    classes = sorted(numbers)
    if not splits.get('train') or not classes:
        text = f'{root}: no object in any .xml file to train on\n{findings.describe()}'
        raise UserError(text.strip())
    labels = {numbers[name]: label for label, name in enumerate(classes)}
    data = DataSet(NAME, root, classes, splits, findings)
    for item in data.objects():
        item.label = labels[item.label]
    return data


def read_lists(root: Path, findings: Findings) -> dict[str, str]:
    """The split of every name, where the dataset has lists of them."""
    found = {}
    for path in sorted((root / LISTS).glob('*.txt')):
        if path.stem in SPLIT_NAMES:  # those of single classes have other names
            found |= {line.split()[0]: SPLIT_NAMES[path.stem] for line in read_list(path, findings)}
    return found


def read_picture(
    path: Path, root: Path, finder: ImageFinder, numbers: dict[str, int], findings: Findings
) -> Picture | None:
    """The image and the objects of an XML file; None, and a finding, if it has none."""
    text = read_text(path, findings)
    if text is None:
        return None
    try:
        tree = ElementTree.fromstring(text.encode())
        size = size_of(tree)
    except (ElementTree.ParseError, ValueError, RecursionError) as error:
        findings.add(faults.FILE_BROKEN, f'{path}: {error}')  # it names the line
        return None
    file_name = tree.findtext('filename') or path.stem
    folders = [path.parent, *(path.parent.parent / n for n in ('JPEGImages', 'images')), root]
    images = finder.find(file_name, folders) or finder.find(path.stem, folders)
    if len(images) != 1:
        kind = finder.fault(file_name, images)
        findings.add(kind, f'{file_name} of {path}' + (f': {listed(images)}' if images else ''))
        return None
    objects = list(read_objects(tree, text, path, numbers, findings))
    found = [item for item in objects if item is not None]
    num_broken = len(objects) - len(found)
    return Picture(images[0], found, recorded=size, num_broken=num_broken)


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
            name, (left, top, right, bottom) = object_in(entry)
        except ValueError as error:
            findings.add(faults.RECORD_BROKEN, f'{where}: {error}')
            yield None
            continue
        label = numbers.setdefault(name, len(numbers))
        yield Object(label, (left, top, right - left, bottom - top), where)


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
            found = [object_in(entry) for entry in root.findall('object')]
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


def object_in(entry: ElementTree.Element) -> tuple[str, list[float]]:
    """Name and corners of an object, read as in mmdet."""
    name, box = entry.findtext('name'), entry.find('bndbox')
    if not name or box is None:
        raise ValueError(f'an object without {"bndbox" if name else "name"}')
    if entry.find('difficult') is not None:
        number_in(entry, 'difficult', integer=True)
    return name, [number_in(box, corner) for corner in CORNERS]


def number_in(parent: ElementTree.Element, tag: str, *, integer: bool = False) -> float:
    text = parent.findtext(tag)
    try:
        value = int(text) if integer else float(text)
        if abs(value) < MAX_PIXELS:
            return value
    except (TypeError, ValueError):
        pass
    raise ValueError(f'{parent.tag} with {tag} {text!r:.40}')
