"""CVAT's own format, "CVAT for images" or "for video": one XML file with boxes and outlines."""

from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element

import numpy as np

from mmeffvit.data import faults
from mmeffvit.data.records import DataSet, Picture, Size, split_in, split_of_file
from mmeffvit.data.tree import Match, Tree
from mmeffvit.errors import UserError
from mmeffvit.utils.files import read_file

from .builder import Builder
from .shapes import ellipse, number, placed, points_of, size_of, turned
from .xml import parse_xml

NAME = 'CVAT'
FRAME = '{:06d}'  # the names of a video's frames, as CVAT exports them
NOT_SHAPES = ('tag', 'attribute')


def find(tree: Tree) -> Match | None:
    """The XML files with the annotations of many images."""
    paths = tree.passing(lambda path: is_cvat(tree.head(path)), '.xml')
    return tree.match(paths, 'XML file', "with CVAT's annotations of images")


def is_cvat(head: bytes) -> bool:
    return b'<annotations>' in head[:4096] and (b'<image ' in head or b'<track ' in head)


def read(tree: Tree, paths: list[Path], findings: faults.Findings) -> DataSet:
    """Read the files of :func:`find`."""
    builder = Builder(tree, findings)
    for path in paths:
        try:
            root, lines = parse_xml(read_file(path))
        except ValueError as error:
            raise UserError(f'{path} cannot be read as XML: {error}') from error
        for name, subset, size, shapes in images_of(root):
            where = f'{path}, line {lines[shapes[0]] if shapes else 1}'
            split = split_in(subset) or split_of_file(path, tree.root)
            picture = builder.picture(name, path, where, size, split, inside=subset)
            builder.each(picture, shapes, f'{path}, line', read_shape, lines)
    return builder.build(NAME, paths)


def images_of(root: Element) -> Iterator[tuple[str, str, Size | None, list[Element]]]:
    """Name, subset, size and shapes of every image or frame."""
    for image in root.findall('image'):
        size = size_of(image.get('height'), image.get('width'))
        yield image.get('name') or '', image.get('subset') or '', size, list(image)
    # by subset, task of a project, and number
    frames: dict[tuple[str, str, int], list[Element]] = {}
    for track in root.findall('track'):
        for shape in track:
            if shape.get('outside') != '1' and (shape.get('frame') or '').isdecimal():
                shape.set('label', shape.get('label') or track.get('label') or '')
                place = track.get('subset') or '', track.get('task_id') or ''
                frames.setdefault((*place, int(shape.get('frame'))), []).append(shape)
    size = size_of(*(root.findtext(f'.//original_size/{side}') for side in ('height', 'width')))
    for (subset, _, frame), shapes in sorted(frames.items()):
        yield f'frame_{FRAME.format(frame)}', subset, size, shapes


def read_shape(shape: Element, where: str, picture: Picture, builder: Builder) -> None:
    """Add a shape of an image."""
    if shape.tag in NOT_SHAPES:
        return
    name, angle = shape.get('label'), number(shape.get('rotation') or 0)

    def values(*keys: str) -> list[float]:
        return [number(shape.get(key)) for key in keys]

    if shape.tag == 'box':
        left, top, right, bottom = values('xtl', 'ytl', 'xbr', 'ybr')
        center = ((left + right) / 2, (top + bottom) / 2)
        box = (left, top, right - left, bottom - top)
        builder.add(picture, name, where, **turned(box, center, angle))
    elif shape.tag == 'polygon':
        pairs = [pair.split(',') for pair in (shape.get('points') or '').split(';')]
        builder.add(picture, name, where, points=points_of(pairs))
    elif shape.tag == 'ellipse':
        outline = ellipse(*values('cx', 'cy', 'rx', 'ry'), angle)
        builder.add(picture, name, where, outline=outline)
    elif shape.tag == 'mask':
        left, top, width, height = map(int, values('left', 'top', 'width', 'height'))
        runs = [int(number(run)) for run in (shape.get('rle') or '').split(',')]
        if min(runs) < 0 or sum(runs) != width * height:
            raise ValueError(f'run lengths that do not fill {width} x {height} pixels')
        mask = np.repeat(np.arange(len(runs)) % 2, runs).reshape(height, width) > 0
        builder.add(picture, name, where, **placed(mask, left, top, picture.recorded))
    else:
        builder.unread(where, shape.tag)
