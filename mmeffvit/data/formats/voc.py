"""Pascal VOC's format: an XML file for every image."""

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from xml.etree.ElementTree import Element

from mmeffvit.data import faults
from mmeffvit.data.faults import Findings
from mmeffvit.data.files import read_list, read_text, spelling
from mmeffvit.data.records import SPLIT_NAMES, DataSet, Picture, Size, named_split
from mmeffvit.data.tree import Match, Tree
from mmeffvit.errors import UserError
from mmeffvit.utils.text import listed

from .builder import Builder
from .shapes import box_of, number
from .xml import parse_xml

NAME = 'Pascal VOC'
CORNERS = ('xmin', 'ymin', 'xmax', 'ymax')
# PaddleX writes train_list.txt
LISTS = ('trainval.txt', *(f'{name}{end}.txt' for name in SPLIT_NAMES for end in ('', '_list')))
FOLDERS = ('imagesets', 'splits', 'split', 'lists', 'list')  # of lists
DECLARED = re.compile(rb'<\?xml[^>]*encoding=["\'](?!(?i:utf-?8))')
ROOT = re.compile(rb'<annotation(?![\w.-])')


def find(tree: Tree) -> Match | None:
    """The XML files with annotations of one image each."""
    paths = tree.like(lambda path: ROOT.search(tree.head(path)[:4096]), '.xml')
    return tree.match(paths, 'XML file', 'with the annotation of an image')


def read(tree: Tree, paths: list[Path], findings: Findings) -> DataSet:
    """Read the files of :func:`find`."""
    builder = Builder(tree, findings)
    for path, split in with_splits(tree, paths, findings):
        parsed = parse(path, findings)
        if parsed is not None and parsed[0].tag == 'annotation':
            root, lines, size = parsed
            name = (root.findtext('filename') or '').strip().replace('\\', '/')
            image = builder.own_image(path, name)
            picture = builder.place(image, size, split) if image else None
            builder.each(picture, root.findall('object'), f'{path}, line', read_object, lines)
    return builder.build(NAME, ['any .xml file'])


def with_splits(
    tree: Tree, paths: Sequence[Path], findings: Findings, lists: Sequence[Path] | None = None
) -> Iterator[tuple[Path, str | None]]:
    """The annotation files, one per image, that are in a list, or all; each with its split."""
    sources = lists_in(tree, paths) if lists is None else lists
    listing = read_splits(sources, paths, findings)
    if sources and not listing and 'imagesets' in map(str.lower, sources[0].parts):
        raise UserError(f'{tree.root}: {listed(sources)} name none of its {paths[0].suffix} files')
    for path in paths:
        split = listing.get(path) if listing else named_split(path.parent, tree.root)
        if listing and split is None:
            findings.add(faults.IMAGE_UNLISTED, f'the image of {path}')
        else:
            yield path, split


def lists_in(tree: Tree, paths: Sequence[Path]) -> list[Path]:
    """The lists of ``ImageSets/Main``, else in a folder for lists, or :func:`lists_above`."""
    named = tree.named(*LISTS)
    main = [p for p in named if [part.lower() for part in p.parts[-3:-1]] == ['imagesets', 'main']]
    return main or [p for p in named if in_folder_of_lists(p)] + lists_above(tree, paths)


def in_folder_of_lists(path: Path) -> bool:
    return path.parent.name.lower() in FOLDERS


def lists_above(tree: Tree, paths: Sequence[Path]) -> list[Path]:
    """The lists in a folder that all of some annotations are below."""
    common = Path(os.path.commonpath({path.parent for path in paths}))
    return [p for p in tree.named(*LISTS) if p.parent in (common, *common.parents)]


def read_splits(
    lists: Sequence[Path], paths: Sequence[Path], findings: Findings
) -> dict[Path, str]:
    """The split of each of ``paths`` that is in some of ``LISTS``.

    If none is to train on, the others are. ``trainval.txt`` is not used beside a list to train on;
    else it is one, without the names in the others.
    """
    by_stem: dict[str, list[Path]] = defaultdict(list)
    for path in paths:
        by_stem[spelling(path.stem)].append(path)
    trained = {path.parent for path in lists if split_of_list(path) == 'train'}
    found: dict[Path, str] = {}
    for source in lists:
        split = split_of_list(source)
        if split or source.parent not in trained:
            for line in read_list(source, findings):
                found.update(dict.fromkeys(named_in(line, source, by_stem), split or 'train'))
    if found and 'train' not in found.values():
        found = dict.fromkeys(paths, 'train') | found
    return found


def split_of_list(path: Path) -> str | None:
    """The split of one of ``LISTS``; None for ``trainval.txt``."""
    return SPLIT_NAMES.get(path.stem.lower().removesuffix('_list'))


def named_in(line: str, source: Path, by_stem: Mapping[str, list[Path]]) -> list[Path]:
    """The files that a line of a list names, as a whole or, before others, in its first word.

    If several have the name, those beside the list, and in the folders that the line names.
    """
    for text in (line, line.split()[0]):
        place = text.strip('"\'').replace('\\', '/')
        for name in (place, place.rpartition('.')[0]):
            found = by_stem.get(spelling(name.rpartition('/')[2]), [])
            if len(found) > 1:
                root = list(source.parents)[:3][-1]  # above ImageSets/Main
                found = [p for p in found if p.is_relative_to(root)] or found
                ending = f'/{name}'
                found = [p for p in found if str(p.with_suffix('')).endswith(ending)] or found
            if found:
                return found
    return []


def parse(
    path: Path, findings: Findings, *, for_mmdet: bool = False
) -> tuple[Element, dict[Element, int], Size | None] | None:
    """The root, lines and image size of an XML file; None, and a finding, if it is invalid.

    The text is UTF-8, whatever it declares, which ``for_mmdet`` must be an encoding of one byte.
    """
    text = read_text(path, findings)
    if text is None:
        return None
    try:
        content = text.encode()
        if for_mmdet and DECLARED.match(content):
            parse_xml(content)
        root, lines = parse_xml(content, 'utf-8')
        return root, lines, recorded_size(root, path, findings)
    except ValueError as error:
        findings.add(faults.FILE_BROKEN, f'{path}: {error}')  # it names the line
        return None


def recorded_size(root: Element, path: Path, findings: Findings) -> Size | None:
    """Height and width; None without, and with a note if they are empty, 0 or negative."""
    size = root.find('size')
    if size is None:
        return None
    texts = [(size.findtext(side) or '').strip() for side in ('height', 'width')]
    if any(re.fullmatch(r'|0+|-\d+', text) for text in texts):
        findings.add(faults.FILLED, f'{path}: width and height')
        return None
    return int(number_in(size, 'height')), int(number_in(size, 'width'))


def read_object(entry: Element, where: str, picture: Picture, builder: Builder) -> None:
    """Add an object, with the polygon that LabelMe's XML has."""
    if (entry.findtext('deleted') or '').strip() == '1':
        return
    name, box = (entry.findtext('name') or '').strip(), entry.find('bndbox')
    points = [(number_in(p, 'x'), number_in(p, 'y')) for p in entry.iterfind('polygon/pt')]
    if not name or (box is None and not points):
        raise ValueError(f'an object without {"bndbox" if name else "name"}')
    difficult = (entry.findtext('difficult', '0') or '').strip()
    if not difficult.isdecimal() and difficult.lower() not in ('true', 'false'):
        builder.findings.add(faults.FILLED, f'{where}: difficult')
    if box is None:
        builder.findings.add(faults.FILLED, f'{where}: bndbox')
        sides = box_of(points)
    else:
        left, top, right, bottom = (number_in(box, corner) for corner in CORNERS)
        sides = (left, top, right - left, bottom - top)
    crowd = difficult.lower() in ('1', 'true')
    builder.add(picture, name, where, box=sides, points=points or None, is_crowd=crowd)


def number_in(parent: Element, tag: str) -> float:
    text = parent.findtext(tag)
    try:
        return number(text)
    except ValueError:
        raise ValueError(f'{parent.tag} with {tag} {text!r:.40}') from None
