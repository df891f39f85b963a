"""labelme's format: a JSON file for every image, beside it."""

from pathlib import Path
from typing import Any

from mmeffvit.data import faults
from mmeffvit.data.records import DataSet, Object, Picture
from mmeffvit.data.tree import Match, Tree

from .builder import Builder
from .shapes import box_of, ellipse, placed, points_of, size_of, unpack_png
from .voc import with_splits

NAME = 'labelme'


def find(tree: Tree) -> Match | None:
    """The JSON files with shapes."""
    paths = tree.like(lambda path: is_labelme(tree.content(path)), '.json')
    return tree.match(paths, 'JSON file', 'with shapes of an image')


def is_labelme(content: bytes) -> bool:
    return b'"shapes"' in content and (b'"imagePath"' in content or b'"imageHeight"' in content)


def read(tree: Tree, paths: list[Path], findings: faults.Findings) -> DataSet:
    """Read the files of :func:`find`."""
    builder = Builder(tree, findings)
    splits = dict(with_splits(tree, paths, findings))
    for path, content in builder.json_files(splits, 'shapes'):
        read_file(path, content, builder, splits[path])
    return builder.build(NAME, paths)


def read_file(path: Path, content: dict, builder: Builder, split: str | None) -> None:
    """Add an image with its shapes; its name may have the path of a folder on another machine."""
    size = size_of(content.get('imageHeight'), content.get('imageWidth'))
    image = builder.own_image(path, str(content.get('imagePath') or '').replace('\\', '/'))
    picture = builder.place(image, size, split) if image else None
    groups: dict[Any, Object] = {}

    def read_grouped(shape: Any, where: str, picture: Picture, builder: Builder) -> None:
        item = read_shape(shape, where, picture, builder)
        if item is not None and shape.get('group_id') is not None:
            merge(item, (item.label, str(shape['group_id'])), groups, picture)

    builder.each(picture, content['shapes'], f'{path}, shape', read_grouped)


def read_shape(shape: Any, where: str, picture: Picture, builder: Builder) -> Object | None:
    """Add a shape: its type says what its points are."""
    if not isinstance(shape, dict):
        raise ValueError(f'{shape!r:.40} is not a shape')
    points, kind = points_of(shape['points']), shape.get('shape_type') or 'polygon'
    if kind == 'rectangle' and len(points) in (2, 4):
        return builder.add(picture, shape['label'], where, box=box_of(points))
    if kind in ('polygon', 'oriented_rectangle', 'rotation'):  # the last is X-AnyLabeling's
        return builder.add(picture, shape['label'], where, points=points)
    if kind == 'circle' and len(points) == 2:
        (x, y), (a, b) = points
        radius = ((x - a) ** 2 + (y - b) ** 2) ** 0.5
        return builder.add(picture, shape['label'], where, outline=ellipse(x, y, radius, radius))
    if kind == 'mask':
        mask = placed(unpack_png(shape['mask']), *points[0], picture.recorded)
        return builder.add(picture, shape['label'], where, **mask)
    builder.unread(where, kind)
    return None


def merge(item: Object, key: Any, groups: dict[Any, Object], picture: Picture) -> None:
    """Make one object of the polygons of a group, whose parts an occluder divides."""
    first = groups.setdefault(key, item)
    if first is item or not (isinstance(first.mask, list) and isinstance(item.mask, list)):
        return
    picture.objects.remove(item)
    first.mask = [*first.mask, *item.mask]
    first.box = box_of([p for part in first.mask for p in zip(part[::2], part[1::2], strict=True)])
