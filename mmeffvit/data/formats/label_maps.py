"""Label maps of users: classes by value or by color, with or without a table."""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mmeffvit.data import faults
from mmeffvit.data.faults import Findings
from mmeffvit.data.files import names_in, require_text
from mmeffvit.data.records import DataSet, Picture, in_words
from mmeffvit.errors import UserError
from mmeffvit.utils.files import read_file
from mmeffvit.utils.images import Unreadable, read_colors, read_labels, read_palette
from mmeffvit.utils.messages import in_threads
from mmeffvit.utils.text import listed

from . import yolo

IGNORED = 255
MAX_CLASSES = 255
VOID = ('void', 'ignore', 'ignored')
BINARY = ('background', 'foreground')  # of maps that have 0 and 255 only
LOSSLESS = ('.png', '.bmp', '.tif', '.tiff')
TONES, BLENDED = 40, 0.02  # of a JPEG's black and white; share of its pixels that may have others
MANY_TONES, EDGES = 16, 0.1  # between black and white, of resized maps; their share of the pixels
WIDE = 32  # between gray levels
TABLES = (
    '*class*.csv', 'class_names.txt', 'classes.txt', 'codes.txt', 'label_colors.txt',
    'labelmap.txt', 'labels.txt', '*.csv', '*.yaml', '*.yml',
)  # fmt: skip
HEADING = 4000  # bytes of a table that may be its heading
UNUSED = '__ignore__'  # first in labelme's lists, of no value
SHOWN_COLORS = 20
NEEDS = (
    'a table beside them: classes.txt with a name in a line for the values 0, 1, ...; or '
    'classes.csv with the heading `name,r,g,b`'
)


def read_table(
    root: Path, folders: Iterable[Path], findings: Findings
) -> tuple[list[str], dict, list[str]]:
    """The classes of a table, their number by value or by RGB color, and the names of what is
    ignored; empty without a table.

    Tables in the ``folders`` of label maps or above are before those in other folders of ``root``.
    """
    near = {f for folder in folders for f in (folder, *folder.parents) if f.is_relative_to(root)}
    near.add(root)
    found = table_in(near, findings) or table_in(filter(Path.is_dir, root.iterdir()), findings)
    if found is None:
        return [], {}, []
    path, rows = found
    return *number_classes(rows, path), [name for name, _ in rows if name.lower() in VOID]


def table_in(folders: Iterable[Path], findings: Findings) -> tuple[Path, list] | None:
    """The first table in some folders, and its rows.

    Raises:
        UserError: If it cannot be read, or others of its name number the classes differently.
    """
    first: tuple[Path, list] | None = None
    ordered = sorted(folders)
    for path in (p for name in TABLES for folder in ordered for p in sorted(folder.glob(name))):
        if (first and path.name != first[0].name) or not is_table(path):
            continue
        rows = list(rows_of(path, require_text(path, findings)))  # values have no other names
        if first and rows not in ([], first[1]):
            raise UserError(
                f'{first[0]} and {path} number the classes differently: number them alike in all '
                'label maps, and give both the same lines'
            )
        first = first or ((path, rows) if rows else None)
    return first


def is_table(path: Path) -> bool:
    """Whether a file may be a table of classes; CSV files are by their heading."""
    if path.suffix != '.csv':
        return True
    heading = read_file(path)[:HEADING].decode('utf-8-sig', 'replace').partition('\n')[0]
    columns = {column.strip(' \r"').lower() for column in heading.split(',')}
    is_named = any(word in path.name.lower() for word in ('class', 'label'))
    values = {'pixel value', 'value', *(['id'] if is_named else [])}  # other tables have ids, too
    return bool(columns & {'name', 'class'} and (columns & values or {'r', 'g', 'b'} <= columns))


def rows_of(path: Path, text: str) -> Iterator[tuple[str, int | tuple[int, ...]]]:
    """Name, and value or color, of every class."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    try:
        if path.suffix == '.csv':
            for row in csv.DictReader(io.StringIO(text), skipinitialspace=True):
                yield from row_of_csv({k.strip().lower(): v for k, v in row.items() if k and v})
        elif path.name == 'labelmap.txt':  # CVAT's: name:r,g,b:parts:actions
            for line in lines:
                if not line.startswith('#'):
                    name, color, *_ = line.split(':')
                    yield name, as_color(color.split(','))
        elif path.suffix in yolo.SUFFIXES:
            yield from rows_of_yaml(path)
        elif path.name == 'label_colors.txt':  # CamVid's: r g b name
            for line in lines:
                *color, name = line.split(None, 3)
                yield name, as_color(color)
        else:
            names = names_in(text, path)
            names = names[1:] if names[:1] == [UNUSED] else names
            yield from ((name, value) for value, name in enumerate(names))
    except (ValueError, csv.Error) as error:
        raise UserError(f'{path} is not a table of classes ({error}); write {NEEDS}') from error


def rows_of_yaml(path: Path) -> Iterator[tuple[str, int]]:
    """The classes of Ultralytics' semantic datasets, by value; none for other YAML files."""
    if not yolo.names_label_maps(path):
        return
    content = yolo.load(path)
    names = yolo.read_names(content, path)
    numbers = content.get('label_mapping') or {number: number for number in range(len(names))}
    if not isinstance(numbers, dict):
        raise ValueError('label_mapping is not a mapping of values to classes')
    for value, number in sorted(numbers.items(), key=lambda item: str(item[1]).zfill(3)):
        is_class = str(number).isdecimal() and int(number) < len(names)
        yield names[int(number)] if is_class else VOID[0], int(str(value))


def row_of_csv(row: dict[str, str]) -> Iterator[tuple[str, int | tuple[int, ...]]]:
    name = row.get('name') or row.get('class')
    value = row.get('pixel value') or row.get('value') or row.get('id')
    if name and {'r', 'g', 'b'} <= row.keys():
        yield name.strip(), as_color([row[channel] for channel in 'rgb'])
    elif name and value:
        yield name.strip(), int(value)


def as_color(texts: list[str]) -> tuple[int, ...]:
    color = tuple(int(text) for text in texts)
    if len(color) != 3 or not all(0 <= value <= 255 for value in color):
        raise ValueError(f'not a color: {",".join(texts)}')
    return color


def number_classes(rows: list, path: Path) -> tuple[list[str], dict]:
    names = [name for name, _ in rows if name.lower() not in VOID]
    if len(names) > MAX_CLASSES or len(set(names)) < len(names):
        raise UserError(
            f'{path} has {len(names)} classes; give up to {MAX_CLASSES}, without duplicates'
        )
    numbers = {name: number for number, name in enumerate(names)}
    table = {value: numbers.get(name, IGNORED) for name, value in rows}
    clash = any(table[value] != numbers.get(name, IGNORED) for name, value in rows)
    if clash or len(set(map(type, table))) > 1:
        raise UserError(f'{path} has values beside colors, or the same one twice: write {NEEDS}')
    return names, table


def guess_classes(pictures: list[Picture]) -> tuple[list[str], dict]:
    """The classes of maps without a table, from their values."""
    values: Counter = Counter()
    highest: Counter = Counter()  # value of every map, -1 for one that leaves some out
    for found in in_threads(values_in, [p.label_map for p in pictures], 'label maps'):
        values.update(found)
        is_counted = sorted(map(hash, found)) == list(range(len(found)))
        highest[len(found) - 1 if is_counted else -1] += 1
    if -1 not in highest and len(highest) > 2 and max(highest) > 2:
        raise UserError(
            f'label maps number the objects of an image from 1 to {min(highest)} or to '
            f'{max(highest)}, and have no classes: write a mask per object, masks/IMAGE/1.png; '
            'or, if they are classes, a table of them, classes.txt'
        )
    if any(isinstance(value, tuple) for value in values):
        raise UserError(
            'label maps have colors, and their classes are not known. These have the most pixels; '
            f'write a table, classes.csv, beside the folders and name them:\n{table_of(values)}'
        )
    numbers = {int(value) for value in values}
    if numbers == {0, IGNORED}:
        return list(BINARY), {0: 0, IGNORED: 1}
    if is_blended(values):
        raise UserError(
            f'label maps are black and white, with {len(numbers) - 2} tones between, as after '
            'resizing or JPEG: export them with 0 and 255 only; or, if these are classes, write '
            f'{NEEDS}'
        )
    if are_gray_levels(sorted(numbers)):
        levels = Counter({(v, v, v): count for v, count in values.items()})
        raise UserError(
            f'label maps have the gray levels {listed(sorted(numbers))}, and their classes are not '
            f'known: write a table, classes.csv, beside the folders and name them:\n'
            f'{table_of(levels)}'
        )
    numbers.discard(IGNORED)
    if min(numbers, default=-1) < 0:
        raise UserError(
            f'label maps have no values from 0 on, and their classes are not known: write {NEEDS}'
        )
    if max(numbers) >= MAX_CLASSES:
        raise UserError(
            f'label maps have values up to {max(numbers)}, and their classes are not known: write '
            f'{NEEDS}'
        )
    names = ['background' if v == 0 else f'class {v}' for v in range(max(numbers) + 1)]
    return names, {v: v for v in range(len(names))}


def are_gray_levels(values: list[int]) -> bool:
    """Whether values are at equal distances, wide or up to 255, such as 0, 128 and 255."""
    gaps = np.diff(values)
    if not len(gaps) or values[0] != 0:
        return False
    least = 2 if values[-1] == 255 else WIDE
    return bool(gaps.min() >= least and np.ptp(gaps) <= 2)


def is_blended(values: Counter) -> bool:
    """Whether pixels are 0 and 255, but for a few of many tones between."""
    tones = {value: count for value, count in values.items() if value not in (0, IGNORED)}
    if len(tones) < MANY_TONES or not IGNORED // 2 < max(tones) < IGNORED:
        return False
    is_rare = sum(tones.values()) < EDGES * values.total()
    return is_rare and min(values[0], values[IGNORED]) > 0


def check_palettes(paths: list[Path]) -> None:
    """Reject maps whose palettes number the same color differently, as optimizers of files do."""
    palettes = list(in_threads(read_palette, paths, 'palettes'))
    if len({*palettes}) < 2:
        return
    first: dict[bytes, tuple[int, Path]] = {}
    for path, palette in zip(paths, palettes, strict=True):
        known = range(len(palette) // 3)
        values = [value for value in (values_in(path) if known else ()) if value in known]
        colors = {value: palette[3 * value : 3 * value + 3] for value in values}
        times = Counter(colors.values())  # the unused end of a palette is black, as its beginning
        for value in (value for value, color in colors.items() if times[color] == 1):
            color = colors[value]
            other, example = first.setdefault(color, (value, path))
            if other != value:
                raise UserError(
                    f'label maps number their colors differently: {tuple(color)} is {other} in '
                    f'{example}, and {value} in {path}; save them in RGB, with {NEEDS}'
                )


def as_binary(classes: list[str], pictures: list[Picture]) -> tuple[list[str], dict] | None:
    """The classes of maps that have 0 and 255 only, named by one or two names of a table."""
    if len(classes) > 2:
        return None
    found: set = set().union(*in_threads(values_in, [p.label_map for p in pictures], 'label maps'))
    if found != {0, IGNORED}:
        return None
    return [*BINARY[: 2 - len(classes)], *classes], {0: 0, IGNORED: 1}


def table_of(values: Counter) -> str:
    """The beginning of a table of colors, the most frequent first, with their share."""
    colors = [(v, n) for v, n in values.most_common() if isinstance(v, tuple)]
    total, shown = sum(n for _, n in colors), colors[:SHOWN_COLORS]
    lines = [
        f'  name {i},{r},{g},{b}    {n / total:.1%} of the pixels'
        for i, ((r, g, b), n) in enumerate(shown, 1)
    ]
    more = [f'  and {len(colors) - len(shown):,} more colors'] if len(colors) > len(shown) else []
    return '\n'.join(['  name,r,g,b', *lines, *more])


def without_copies(values: NDArray) -> NDArray:
    """A map without the copies of its only channel, if it is gray and saved with three."""
    is_gray = values.ndim == 3 and (values == values[..., :1]).all()
    return values[..., 0] if is_gray else values


def values_in(path: Path) -> Counter:
    """The pixels of a map by value or by color; none if it cannot be read."""
    try:
        labels = without_copies(read_values(path))
        by_color = labels.ndim == 3
        found, counts = np.unique(packed_colors(path) if by_color else labels, return_counts=True)
    except Unreadable:
        return Counter()
    keys = map(unpacked, found.tolist()) if by_color else found.tolist()
    return Counter(dict(zip(keys, counts.tolist(), strict=True)))


def packed_colors(path: Path) -> NDArray:
    """The colors of a map, red, green and blue as bytes of one integer: (H, W).

    Raises:
        Unreadable: If it cannot be decoded.
    """
    return read_colors(path).astype(np.int64) @ (1 << 16, 1 << 8, 1)


def unpacked(color: int) -> tuple[int, int, int]:
    return color >> 16, color >> 8 & 255, color & 255


def read_values(path: Path) -> NDArray:
    """The values of a label map; of a JPEG 0 and 255, to which its blended ones are rounded.

    Raises:
        Unreadable: If it cannot be decoded, or a JPEG has other values.
    """
    labels = read_labels(path)
    if labels.ndim == 3 and labels.shape[-1] in (2, 4):
        labels = labels[..., : labels.shape[-1] - 1]  # without alpha
    if labels.ndim == 3 and labels.shape[-1] == 1:
        labels = labels[..., 0]
    if path.suffix.lower() in LOSSLESS:
        return labels
    is_white = labels > 127
    if (np.minimum(labels, 255 - labels) > TONES).mean() > BLENDED or (
        labels.ndim == 3 and (is_white != is_white[..., :1]).any()
    ):
        raise Unreadable(f'{path} is no PNG, and has other values than black and white')
    return np.where(is_white if labels.ndim == 2 else is_white[..., 0], 255, 0).astype(np.uint8)


def check_label_map(picture: Picture, data: DataSet) -> bool:
    """Whether a label map fits its image; its pixels are counted by class."""
    path = picture.label_map
    try:
        labels, others, share = read_label_map(path, picture.colors or data.colors, data.findings)
    except Unreadable as fault:
        data.findings.add(faults.MAP_BROKEN, fault)
        return False
    if labels.shape != picture.size:
        sizes = f'{path} is {in_words(labels.shape)}, its image {in_words(picture.size)}'
        data.findings.add(faults.MAP_SIZE, sizes)
        return False
    if others:
        text = f'{path} has {listed(others, 6)}, in {share:.1%} of its pixels'
        data.findings.add(faults.MAP_VALUE, text)
    values, counts = np.unique(labels, return_counts=True)
    data.pixels.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
    return not others


def read_label_map(
    path: Path, colors: dict, findings: Findings | None = None
) -> tuple[NDArray, list, float]:
    """Classes by pixel, (H, W) uint8, the values or colors that are none, and their share.

    Raises:
        Unreadable: If it cannot be decoded.
    """
    by_color = any(isinstance(key, tuple) for key in colors)
    if by_color:
        values = packed_colors(path)
        table = {(r << 16) + (g << 8) + b: label for (r, g, b), label in colors.items()}
    else:
        stored, table = read_values(path).astype(np.int64), dict(colors)
        values = without_copies(stored)
        if values.ndim < stored.ndim and findings is not None:
            findings.add(faults.MAP_GRAY, path)
        if values.ndim == 3:
            raise Unreadable(f'{path} has {values.shape[-1]} channels, and the table has values')
        table.setdefault(IGNORED, IGNORED)
    found, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    is_other = np.array([value not in table for value in found.tolist()], bool)
    others = found[is_other].tolist()
    others = list(map(unpacked, others)) if by_color else others
    labels = np.array([table.get(value, IGNORED) for value in found.tolist()], np.uint8)
    share = float(counts[is_other].sum() / max(1, values.size))
    return labels[places].reshape(values.shape), others, share
