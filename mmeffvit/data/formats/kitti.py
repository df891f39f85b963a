"""KITTI's format: a text file of 15 columns for every image, in ``label_2`` and ``image_2``."""

import re
from itertools import takewhile
from pathlib import Path

from mmeffvit.data import faults
from mmeffvit.data.files import read_text
from mmeffvit.data.records import DataSet, Picture
from mmeffvit.data.tree import Match, Tree

from .builder import Builder
from .shapes import number
from .voc import lists_in, split_of_list, with_splits

NAME = 'KITTI'
LINE = re.compile(rb'[^\W\d][^\n]{0,99}?( -?\d[\d.e+-]{0,30}){14,15}\s*$')
NUMBER = re.compile(r'-?\d[\d.e+-]*')
IGNORED = 'DontCare'
BOX = slice(3, 7)  # left, top, right and bottom, after the class
IMAGES, LABELS = 'image_', 'label_'


def find(tree: Tree) -> Match | None:
    """The text files of a class and 14 numbers a line."""
    folders = {path.parent for path in tree.sample('.txt')
               if LINE.match(tree.head(path)[:2000].partition(b'\n')[0])}  # fmt: skip
    stems = {path.stem for path in tree.images}
    folders = {
        path.parent for path in tree.of('.txt') if path.parent in folders and path.stem in stems
    }
    paths = [p for p in tree.of('.txt') if p.parent in folders]
    return tree.match(paths, 'text file', 'of a class and 14 numbers a line')


def read(tree: Tree, paths: list[Path], findings: faults.Findings) -> DataSet:
    """Read the files of :func:`find`; the box in the image counts, not the one in space."""
    builder = Builder(tree, findings)
    # the images to test on are numbered from 0 as well, and have no labels
    lists = [p for p in lists_in(tree, paths) if split_of_list(p) != 'test']
    for path, split in with_splits(tree, paths, findings, lists):
        folder = path.parent.with_name(path.parent.name.replace(LABELS, IMAGES))
        picture = builder.picture(path.stem, folder / path.name, str(path), split=split)
        text = read_text(path, findings) if picture else None
        builder.each(picture, (text or '').splitlines(), f'{path}, line', read_line)
    return builder.build(NAME, paths)


def read_line(line: str, where: str, picture: Picture, builder: Builder) -> None:
    """Add the object of a line, unless it is empty."""
    words = line.split()
    name = ' '.join(takewhile(lambda word: not NUMBER.fullmatch(word), words))  # `traffic light`
    if name == IGNORED:
        builder.unread(where, IGNORED)
    elif words:
        values = [number(word) for word in words[len(name.split()) :]]
        if not name or len(values) not in (14, 15):
            raise ValueError(f'{len(values) + 1} columns, not 15')
        left, top, right, bottom = values[BOX]
        builder.add(picture, name, where, box=(left, top, right - left, bottom - top))
