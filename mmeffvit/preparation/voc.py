"""Pascal VOC's format: an XML file for every image."""

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from mmeffvit.checks.data.voc import objects_in, size_of
from mmeffvit.errors import UserError
from mmeffvit.utils.text import listed

from .faults import FILE_BROKEN, IMAGE_AMBIGUOUS, IMAGE_MISSING, RECORD_BROKEN, Findings
from .files import ImageFinder, read_list, read_text
from .records import SPLIT_NAMES, DataSet, Object, Picture, split_of

NAME = 'Pascal VOC'
LISTS = 'ImageSets/Main'


def find(path: Path) -> Path | None:
    """The folder, if it has XML files with annotations."""
    if not path.is_dir():
        return None
    first = next(path.rglob('*.xml'), None)
    if first is None or b'<annotation' not in first.read_bytes()[:4096]:
        return None
    return path


def read(root: Path, findings: Findings) -> DataSet:
    """Read a data set; classes are those of the objects, sorted, since VOC has no list of them.

    Args:
        root: The folder.
        findings: Receives what is broken.

    Raises:
        UserError: If there are no objects.
    """
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
    if not splits or not classes:
        raise UserError(f'{root}: no object in any .xml file\n{findings.describe()}'.strip())
    labels = {numbers[name]: label for label, name in enumerate(classes)}
    data = DataSet(NAME, root, classes, splits, findings)
    for item in data.objects():
        item.label = labels[item.label]
    return data


def read_lists(root: Path, findings: Findings) -> dict[str, str]:
    """The split of every name, where the data set has lists of them."""
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
        findings.add(FILE_BROKEN, f'{path}: {error}')  # it names the line
        return None
    file_name = tree.findtext('filename') or path.stem
    folders = [path.parent, *(path.parent.parent / n for n in ('JPEGImages', 'images')), root]
    images = finder.find(file_name, folders) or finder.find(path.stem, folders)
    if len(images) != 1:
        kind = IMAGE_AMBIGUOUS if images else IMAGE_MISSING
        findings.add(kind, f'{file_name} of {path}' + (f': {listed(images)}' if images else ''))
        return None
    objects = list(read_objects(tree, text, path, numbers, findings))
    return Picture(images[0], objects, recorded=size)


def read_objects(
    tree: ElementTree.Element, text: str, path: Path, numbers: dict[str, int], findings: Findings
) -> Iterator[Object]:
    lines = [text.count('\n', 0, m.start()) + 1 for m in re.finditer(r'<object[\s>]', text)]
    for entry, line in zip(tree.findall('object'), lines, strict=False):
        where = f'{path}, line {line}'
        single = ElementTree.Element('annotation')
        single.append(entry)
        try:
            ((name, (left, top, right, bottom)),) = objects_in(single)
        except ValueError as error:
            findings.add(RECORD_BROKEN, f'{where}: {error}')
            continue
        label = numbers.setdefault(name, len(numbers))
        yield Object(label, (left, top, right - left, bottom - top), where)
