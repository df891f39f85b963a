"""Annotations in PASCAL VOC's format: a list of names, and one XML file for each."""

from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from xml.etree import ElementTree

from mmeffvit.errors import UserError
from mmeffvit.utils.reading import read_file

from . import report as kinds
from .coco import MAX_PIXELS, SLACK, within
from .report import Report

CORNERS = ('xmin', 'ymin', 'xmax', 'ymax')
Size = tuple[int, int]  # height and width


def read_names(path: str) -> list[str]:
    """The lines of a list, read as in mmengine.

    Raises:
        UserError: If it cannot be read.
    """
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
            report.add(kinds.LISTED_DUPLICATE, name)
            continue
        try:
            root = ElementTree.fromstring(read_file(path))
            sizes[name] = size_of(root)
            found = list(objects_in(root))
        except (ElementTree.ParseError, LookupError) as error:  # the line, or the encoding
            report.add(kinds.FILE_UNREADABLE, f'{path} ({error})')
        except (UserError, RecursionError) as error:
            report.add(kinds.FILE_UNREADABLE, error)
        except ValueError as error:
            report.add(kinds.RECORD_INCOMPLETE, f'{error} in {path}')
        else:
            report.num_records += len(found)
            for label, box in found:
                check_box(box, sizes[name], f'{label} {box} in {path}', report)
                if label not in classes:
                    report.add(kinds.CLASS_IGNORED, repr(label))
            images.update({label for label, _ in found})
            objects.update(label for label, _ in found)
            if not found:
                report.add(kinds.WITHOUT_ANNOTATION, path)
    report.table = [('class', 'images', 'annotations')]
    report.table += [(label, f'{images[label]:,}', f'{objects[label]:,}') for label in classes]
    for label in classes:
        if not objects[label]:
            report.add(kinds.CLASS_EMPTY, repr(label))
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


def objects_in(root: ElementTree.Element) -> Iterator[tuple[str, list[float]]]:
    """Name and corners of every object, read as in mmdet."""
    for entry in root.findall('object'):
        name, box = entry.findtext('name'), entry.find('bndbox')
        if not name or box is None:
            raise ValueError(f'an object without {"bndbox" if name else "name"}')
        if entry.find('difficult') is not None:
            number_in(entry, 'difficult', integer=True)
        yield name, [number_in(box, corner) for corner in CORNERS]


def number_in(parent: ElementTree.Element, tag: str, *, integer: bool = False) -> float:
    text = parent.findtext(tag)
    try:
        value = int(text) if integer else float(text)
        if abs(value) < MAX_PIXELS:
            return value
    except (TypeError, ValueError):
        pass
    raise ValueError(f'{parent.tag} with {tag} {text!r:.40}')


def check_box(box: list[float], size: Size | None, what: str, report: Report) -> None:
    left, top, right, bottom = box
    image = dict(height=size[0], width=size[1]) if size else None
    if right - left < 1 or bottom - top < 1:
        report.add(kinds.BOX_EMPTY, what)
    elif image and not within(box, image, float('inf')):
        report.add(kinds.BOX_FAR, what)
    elif image and not within(box, image, SLACK):
        report.add(kinds.BOX_OUTSIDE, what)
