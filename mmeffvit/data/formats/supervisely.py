"""Supervisely's format: ``ann/NAME.jpg.json`` with objects for every ``img/NAME.jpg``."""

from pathlib import Path
from typing import Any

from mmeffvit.data import faults
from mmeffvit.data.records import DataSet, Picture, split_in
from mmeffvit.data.tree import Match, Tree

from .builder import Builder
from .shapes import box_of, flat, number, placed, points_of, size_of, unpack_png, with_holes

NAME = 'Supervisely'


def find(tree: Tree) -> Match | None:
    """The JSON files with objects and their classes."""
    paths = tree.like(lambda path: is_supervisely(tree.content(path)), '.json')
    paths = [path for path in paths if path.parent.name == 'ann'] or paths
    return tree.match(paths, 'JSON file', "of Supervisely's objects")


def is_supervisely(content: bytes) -> bool:
    return b'"classTitle"' in content and b'"geometryType"' in content


def read(tree: Tree, paths: list[Path], findings: faults.Findings) -> DataSet:
    """Read the files of :func:`find`."""
    builder = Builder(tree, findings)
    for path, content in builder.json_files(paths, 'objects'):
        read_file(path, content, builder)
    return builder.build(NAME, paths)


def read_file(path: Path, content: dict, builder: Builder) -> None:
    """Add an image with its objects."""
    sides = content.get('size') if isinstance(content.get('size'), dict) else {}
    size = size_of(sides.get('height'), sides.get('width'))
    rows = content['tags'] if isinstance(content.get('tags'), list) else ()
    tags = [tag.get('name') for tag in rows if isinstance(tag, dict)]
    tagged = (split for tag in tags if isinstance(tag, str) and (split := split_in(tag)))
    split = next(tagged, None)
    picture = builder.picture(path.stem, path.with_name('x'), str(path), size, split)
    builder.each(picture, content['objects'], f'{path}, object', read_object)


def read_object(row: Any, where: str, picture: Picture, builder: Builder) -> None:
    """Add an object; polygons with holes become run lengths, since COCO's polygons have none."""
    kind, name, size = row.get('geometryType'), row['classTitle'], picture.recorded
    if kind == 'bitmap':
        left, top = (number(value) for value in row['bitmap']['origin'])
        mask = unpack_png(row['bitmap']['data'], is_zipped=True)
        builder.add(picture, name, where, **placed(mask, left, top, size))
    elif kind in ('rectangle', 'polygon'):
        points = points_of(row['points']['exterior'])
        mask = None if kind == 'rectangle' else [flat(points)]
        holes = [points_of(hole) for hole in row['points'].get('interior') or ()]
        if mask and holes:
            mask = with_holes(points, holes, size)
        builder.add(picture, name, where, box=box_of(points), mask=mask)
    else:
        builder.unread(where, kind)
