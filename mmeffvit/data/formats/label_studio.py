"""Label Studio's own exports: JSON, JSON-MIN and CSV, with results in percent of an image."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from mmeffvit.data import faults
from mmeffvit.data.files import read_rows
from mmeffvit.data.records import DataSet, Picture, Size, split_of_file
from mmeffvit.data.tree import Match, Tree
from mmeffvit.utils.files import parse_json, read_json

from .builder import Builder
from .shapes import ellipse, number, placed, points_of, size_of, turned

NAME = 'Label Studio'
LABELS = ('rectanglelabels', 'polygonlabels', 'ellipselabels', 'brushlabels', 'labels')
UPLOADED = re.compile(r'^[0-9a-f]{8}-')  # what an upload adds to a name
REMOVED = re.compile(r'[^-\w.]')  # from the name, after spaces became underscores
IMAGE = re.compile(r'(?i)\.(jpe?g|jfif|png|bmp|webp|tiff?|avif|ppm|pgm)$')


def find(tree: Tree) -> Match | None:
    """The files with results in percent."""
    paths = tree.passing(lambda path: is_export(tree.content(path)), '.json', '.csv', '.tsv')
    return tree.match(paths, 'file', "of Label Studio's results")


def is_export(content: bytes) -> bool:
    return b'original_width' in content and any(name.encode() in content for name in LABELS)


def read(tree: Tree, paths: list[Path], findings: faults.Findings) -> DataSet:
    """Read the files of :func:`find`."""
    builder = Builder(tree, findings)
    names = [path.name for path in tree.images]
    stored = {REMOVED.sub('', name.replace(' ', '_')): name for name in names}
    stored |= {name: name for name in names}
    for path in paths:
        tasks = list(tasks_in(path, findings))
        for count, (addresses, results) in enumerate(tasks, 1):
            where = f'{path}, task {count}'
            if results is None:
                findings.add(faults.IMAGE_UNLISTED, f'{where}: skipped, or without an annotation')
                continue
            are_rows = isinstance(results, list)
            rows = [row for row in results if isinstance(row, dict)] if are_rows else []
            if len(addresses) > 1 and len({row.get('to_name') for row in rows}) > 1:
                findings.add(faults.RECORD_BROKEN, f'{where}: objects of several images')
                continue
            name = local_name(addresses[0] if addresses else '', builder, stored)
            split = split_of_file(path, tree.root)
            sizes = (size_of(r.get('original_height'), r.get('original_width')) for r in rows)
            picture = builder.picture(name, path, where, next(filter(None, sizes), None), split)
            builder.each(picture, results, f'{where}, result', read_result)
    return builder.build(NAME, paths)


def tasks_in(path: Path, findings: faults.Findings) -> Iterator[tuple[list[str], list[Any] | None]]:
    """The addresses of the images and the results of every task."""
    if path.suffix.lower() == '.json':
        rows = read_json(path)
    else:
        rows = read_rows(path, findings, '\t' if path.suffix.lower() == '.tsv' else ',')
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict):
            yield addresses_in(row), results_in(row, path)


def addresses_in(row: dict) -> list[str]:
    """The addresses of images, whatever their fields are called; else the first text."""
    data = row.get('data') or row
    values = data.values() if isinstance(data, dict) else ()
    texts = [value for value in values if isinstance(value, str)]
    found = [t for t in texts if IMAGE.search(t) or IMAGE.search(t.partition('?')[0])]
    return found or texts[:1]


def results_in(row: dict, path: Path) -> list[Any] | None:
    """The results of the last annotation of a task, or of a row of JSON-MIN or CSV.

    None if the task has been skipped, or not been annotated yet.
    """
    annotations = row.get('annotations', row.get('completions'))
    if isinstance(annotations, list):
        kept = [a for a in annotations if isinstance(a, dict) and not a.get('was_cancelled')]
        return kept[-1].get('result') or [] if kept else None
    found = []
    for value in row.values():
        if isinstance(value, str) and value.startswith('[{') and 'original_width' in value:
            value = parse_json(value, str(path))
        if isinstance(value, list):
            found += [r for r in value if isinstance(r, dict) and 'original_width' in r]
    return found


def local_name(address: str, builder: Builder, stored: dict[str, str]) -> str:
    """The name of a linked image, or of one that an upload has ``stored`` under another."""
    name = unquote(address.partition('?d=')[2] or address.partition('?')[0])
    last = name.replace('\\', '/').rpartition('/')[2]
    if UPLOADED.match(last) and not builder.finder.find(last, ()):
        bare = UPLOADED.sub('', last)
        return stored.get(bare, bare)
    return name


def read_result(row: Any, where: str, picture: Picture, builder: Builder) -> None:
    """Add a result."""
    if not isinstance(row, dict):
        raise ValueError(f'{row!r:.40} is not a result')
    value = row['value'] if isinstance(row.get('value'), dict) else row
    names = next((value[key] for key in LABELS if value.get(key)), None)
    if names is None:
        builder.unread(where, row.get('type') or 'a result without labels')
        return
    name = names[0] if isinstance(names, list) else names
    size = (int(number(row['original_height'])), int(number(row['original_width'])))
    x_scale, y_scale = size[1] / 100, size[0] / 100

    def scaled(x: str, y: str) -> tuple[float, float]:
        return number(value[x]) * x_scale, number(value[y]) * y_scale

    if 'points' in value:
        points = [(x * x_scale, y * y_scale) for x, y in points_of(value['points'])]
        shape = dict(points=points)
    elif 'rle' in value:
        shape = placed(decode_brush(value['rle'], size), 0, 0, size)
    else:
        corner, angle = scaled('x', 'y'), number(value.get('rotation') or 0)
        if 'radiusX' in value:
            shape = dict(outline=ellipse(*corner, *scaled('radiusX', 'radiusY'), angle))
        else:
            shape = turned((*corner, *scaled('width', 'height')), corner, angle)
    builder.add(picture, name, where, **shape)


def decode_brush(codes: Any, size: Size) -> np.ndarray:
    """A brush's mask: run lengths of the bytes of an RGBA image, as numbers of given bits."""
    data = np.array(codes)
    if data.ndim != 1 or data.dtype.kind != 'i' or data.min() < 0 or data.max() > 255:
        raise ValueError('run lengths that are not bytes')
    bits = ''.join(f'{byte:08b}' for byte in data.tolist())
    place = 0

    def take(count: int) -> int:
        nonlocal place
        place += count
        if place > len(bits):
            raise ValueError('run lengths that are truncated')
        return int(bits[place - count : place], 2)

    total, word = take(32), take(5) + 1
    if total != 4 * size[0] * size[1]:
        raise ValueError(f'run lengths of {total} bytes, not of {size[1]} x {size[0]} pixels')
    sizes = [take(4) + 1 for _ in range(4)]
    values: list[np.ndarray] = []
    done = 0
    while done < total:
        is_run, length = take(1), take(sizes[take(2)]) + 1
        length = min(length, total - done)
        found = [take(word)] * length if is_run else [take(word) for _ in range(length)]
        values.append(np.array(found, np.uint8))
        done += length
    return np.concatenate(values).reshape(*size, 4)[..., 3] > 0
