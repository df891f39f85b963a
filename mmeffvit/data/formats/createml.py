"""CreateML's format: a JSON list of images with boxes around centers."""

from pathlib import Path
from typing import Any

from mmeffvit.data import faults
from mmeffvit.data.records import DataSet, Picture, split_of_file
from mmeffvit.data.tree import Match, Tree

from .builder import Builder
from .shapes import number

NAME = 'CreateML'


def find(tree: Tree) -> Match | None:
    """The JSON files with labels and coordinates."""
    paths = tree.like(lambda path: is_createml(tree.content(path)), '.json')
    # those of images without objects and unreadable ones, too, but no other JSON
    paths = [path for path in paths if tree.head(path).lstrip()[:1] != b'{']
    return tree.match(paths, 'JSON file', "of CreateML's labels and coordinates")


def is_createml(content: bytes) -> bool:
    return content.lstrip()[:1] == b'[' and b'"coordinates"' in content and b'"label"' in content


def read(tree: Tree, paths: list[Path], findings: faults.Findings) -> DataSet:
    """Read the files of :func:`find`."""
    builder = Builder(tree, findings)
    for path, content in builder.json_contents(paths):
        for count, entry in enumerate(content if isinstance(content, list) else (), 1):
            read_image(path, f'{path}, image {count}', entry, builder)
    return builder.build(NAME, paths)


def read_image(path: Path, where: str, entry: Any, builder: Builder) -> None:
    """Add an image with its boxes."""
    entry = entry if isinstance(entry, dict) else {}
    name = entry.get('image') or entry.get('imagefilename') or entry.get('filename')
    if not isinstance(name, str):
        builder.findings.add(faults.RECORD_BROKEN, f'{where}: no image')
        return
    picture = builder.picture(name, path, where, split=split_of_file(path, builder.root))
    rows = entry.get('annotations') or entry.get('annotation') or []  # Apple's documentation
    builder.each(picture, rows, f'{where}, {name}, annotation', read_box)


def read_box(row: Any, where: str, picture: Picture, builder: Builder) -> None:
    """Add a box."""
    sides = ('x', 'y', 'width', 'height')
    x, y, width, height = (number(row['coordinates'][key]) for key in sides)
    box = (x - width / 2, y - height / 2, width, height)
    builder.add(picture, row['label'], where, box=box)
