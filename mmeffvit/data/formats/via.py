"""VGG Image Annotator's format: regions of many images in a JSON or CSV file, of VIA 1, 2 or 3."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mmeffvit.data import faults
from mmeffvit.data.files import read_rows
from mmeffvit.data.records import DataSet, Picture, split_of_file
from mmeffvit.data.tree import Match, Tree
from mmeffvit.errors import UserError
from mmeffvit.utils.files import parse_json, read_json

from .builder import Builder
from .shapes import ellipse, number, points_of

NAME = 'VIA'
ONLY = 'object'  # the class where no attribute names one
LIKELY = ('class', 'label', 'name', 'type', 'kind', 'category', 'object')
SHAPES = 'region_shape_attributes'  # a column of its CSV
THIRD = ('metadata', 'view', 'file', 'attribute')  # tables of VIA 3
NUMBERED = (None, 'point', 'rect', 'circle', 'ellipse', 'line', 'polyline', 'polygon')  # by VIA 3


def find(tree: Tree) -> Match | None:
    """The files with the regions of images."""
    paths = tree.passing(lambda path: is_via(tree.content(path)), '.json')
    paths += tree.passing(lambda path: SHAPES.encode() in tree.head(path)[:4096], '.csv')
    return tree.match(paths, 'file', "of VIA's regions")


def is_via(content: bytes) -> bool:
    is_third = all(f'"{key}"'.encode() in content for key in THIRD)
    return is_third or b'"shape_attributes"' in content or b'"_via_img_metadata"' in content


def read(tree: Tree, paths: list[Path], findings: faults.Findings) -> DataSet:
    """Read the files of :func:`find`."""
    builder = Builder(tree, findings)
    files = [(path, list(images_of(path, findings))) for path in paths]
    regions = [each for _, images in files for _, found in images for each in found]
    key = class_attribute(regions)
    for path, images in files:
        for name, found in images:
            picture = builder.picture(name, path, split=split_of_file(path, tree.root))
            read = partial(read_region, key=key)
            builder.each(picture, found, f'{path}, {name}, region', read)
    return builder.build(NAME, paths)


def images_of(path: Path, findings: faults.Findings) -> Iterator[tuple[str, list[Any]]]:
    """Name and regions of every image."""
    if path.suffix.lower() == '.csv':
        yield from images_of_csv(path, findings)
        return
    content = read_json(path)
    if isinstance(content, dict) and all(isinstance(content.get(key), dict) for key in THIRD):
        yield from images_of_third(content)
        return
    content = content.get('_via_img_metadata', content) if isinstance(content, dict) else content
    if not isinstance(content, dict):
        raise UserError(f"{path} is not a file of VIA's regions")
    for entry in content.values():
        if isinstance(entry, dict) and isinstance(entry.get('filename'), str):
            regions = entry.get('regions') or []
            regions = [*regions.values()] if isinstance(regions, dict) else regions
            # anything else is reported as a region
            yield entry['filename'], regions if isinstance(regions, list) else [regions]


def images_of_third(content: dict) -> Iterator[tuple[str, list[Any]]]:
    """The images of VIA 3, with regions as the versions before have them."""
    files, attributes = content['file'], content['attribute']
    by_view: dict[Any, list[Any]] = {key: [] for key in content['view']}
    for row in content['metadata'].values():
        if isinstance(row, dict) and row.get('xy') == []:  # an attribute of the file
            continue
        try:
            named = {attributes[key]['aname']: option_of(attributes[key], value)
                     for key, value in row['av'].items()}  # fmt: skip
            region = dict(shape_attributes=shape_of(row['xy']), region_attributes=named)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            region = error  # which has no attributes, and is reported as it
        view = str(row.get('vid')) if isinstance(row, dict) else ''
        by_view.setdefault(view, []).append(region)
    for key, found in by_view.items():
        try:
            name = files[str(content['view'][key]['fid_list'][0])]['fname']
        except (IndexError, KeyError, TypeError):
            name = f'view {key}' if found else None  # an image that is missing
        if isinstance(name, str):
            yield name, found


def option_of(attribute: dict, value: Any) -> Any:
    """The text of the options that a value numbers, the first of several."""
    options = attribute.get('options') or {}
    return options.get(str(value).partition(',')[0], value)


def shape_of(numbers: list) -> dict[str, Any]:
    """The shape of a row of VIA 3: the number of its kind, and its coordinates."""
    first, *values = numbers
    kind = NUMBERED[first] if first in range(len(NUMBERED)) else f'shape {first}'
    if kind == 'polygon':
        return dict(name=kind, all_points_x=values[0::2], all_points_y=values[1::2])
    keys = {'rect': ('x', 'y', 'width', 'height'), 'circle': ('cx', 'cy', 'r')}
    return dict(zip(keys.get(kind, ('cx', 'cy', 'rx', 'ry')), values, strict=False), name=kind)


def images_of_csv(path: Path, findings: faults.Findings) -> Iterator[tuple[str, list[Any]]]:
    by_name: dict[str, list[Any]] = {}
    for row in read_rows(path, findings):
        if SHAPES not in row:
            raise UserError(f'{path} has no column {SHAPES}')
        found = by_name.setdefault(row.get('filename') or row.get('#filename') or '', [])
        shape = parse_json(row[SHAPES] or '{}', str(path))
        if shape:
            attributes = parse_json(row.get('region_attributes') or '{}', str(path))
            found.append(dict(shape_attributes=shape, region_attributes=attributes))
    yield from by_name.items()


def class_attribute(regions: Sequence[Any]) -> str | None:
    """The attribute that names the class: of several, a likely name, else the most frequent."""
    counts: Counter[str] = Counter()
    for region in regions:
        attributes = region.get('region_attributes') if isinstance(region, dict) else None
        if isinstance(attributes, dict):
            counts.update(key for key, value in attributes.items() if class_in(value))
    likely = [key for key in counts if str(key).lower() in LIKELY]
    return max(likely or counts, key=lambda key: counts[key], default=None)


def class_in(value: Any) -> str:
    """The name in an attribute: a text, or the option of a list that is on."""
    if isinstance(value, dict):
        return next((key for key, is_on in value.items() if is_on), '')
    return str(value).strip() if isinstance(value, str | int) else ''


def read_region(
    region: Any, where: str, picture: Picture, builder: Builder, *, key: str | None
) -> None:
    """Add a region of an image."""
    if isinstance(region, Exception):
        raise ValueError(f'not a region of VIA 3: {region!r}')
    shape, attributes = region['shape_attributes'], region.get('region_attributes') or {}
    name = class_in(attributes.get(key)) if key else ONLY
    kind = shape['name']
    if kind == 'rect':
        box = [number(shape[side]) for side in ('x', 'y', 'width', 'height')]
        builder.add(picture, name, where, box=box)
    elif kind == 'polygon':
        pairs = zip(shape['all_points_x'], shape['all_points_y'], strict=True)
        builder.add(picture, name, where, points=points_of(pairs))
    elif kind in ('circle', 'ellipse'):
        x, y = number(shape['cx']), number(shape['cy'])
        radii = [number(shape.get('r', shape.get(side))) for side in ('rx', 'ry')]
        angle = math.degrees(number(shape.get('theta') or 0))
        builder.add(picture, name, where, outline=ellipse(x, y, *radii, angle))
    else:
        builder.unread(where, kind)
