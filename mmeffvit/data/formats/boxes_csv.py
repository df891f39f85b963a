"""Boxes in CSV files: columns of TensorFlow and Open Images, or RetinaNet's without heading."""

import csv
import io
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from mmeffvit.data import faults
from mmeffvit.data.files import read_text, require_text
from mmeffvit.data.records import DataSet, Size, split_in, split_of_file
from mmeffvit.data.tree import Match, Tree
from mmeffvit.errors import UserError

from .builder import Builder
from .shapes import LIMIT, number, size_of

NAME = 'CSV'
ONLY = 'object'  # the class of a file without a column for it
COLUMNS = {  # spellings of a heading, without case, blanks and underscores
    'name': ('filename', 'imagename', 'imagepath', 'imageid', 'image', 'path', 'file', 'filepath',
             'img', 'imgname', 'id', 'frame'),
    'class': ('classname', 'labelname', 'categoryname', 'class', 'label', 'category', 'name',
              'classid', 'categoryid', 'labelid', 'classlabel', 'objectclass', 'objectname',
              'classes', 'labels', 'object', 'type', 'tag'),
    'left': ('xmin', 'x1', 'left', 'xtl', 'bboxxmin', 'bboxx', 'bboxleft', 'x'),
    'top': ('ymin', 'y1', 'top', 'ytl', 'bboxymin', 'bboxy', 'bboxtop', 'y'),
    'right': ('xmax', 'x2', 'right', 'xbr', 'bboxxmax', 'bboxright'),
    'bottom': ('ymax', 'y2', 'bottom', 'ybr', 'bboxymax', 'bboxbottom'),
    'wide': ('bboxwidth', 'bboxw', 'w', 'width'),
    'high': ('bboxheight', 'bboxh', 'h', 'height'),
    'box': ('bbox', 'box'),
    'split': ('split', 'set', 'subset'),
    'crowd': ('isgroupof',),
}  # fmt: skip
CORNERS, SIDES = ('left', 'top', 'right', 'bottom'), ('left', 'top', 'wide', 'high')
WITHOUT_HEADING = {  # RetinaNet's, and those of makesense.ai
    re.compile(r'[^,]+(,\s*-?[\d.]+){4},[^,]+$|[^,]+,,,,,$'): ['name', *CORNERS, 'class'],
    re.compile(r'[^,]+(,-?[\d.]+){4},[^,]+\.\w+(,\d+){2}$'): ['class', *SIDES, 'name', '', ''],
}
TABLES = re.compile(r'classes\.csv|(oidv\d-)?class[-_]descriptions|class_list|labels')
Row = dict[str, str]


def find(tree: Tree) -> Match | None:
    """The CSV files with a box in a line."""
    paths = tree.passing(
        lambda path: columns_of(tree.head(path)[:4096].decode('utf-8-sig', 'replace')), '.csv'
    )
    return tree.match(paths, 'CSV file', 'with a box in a line')


def columns_of(text: str) -> list[str] | None:
    """What every column has; None if these are not boxes."""
    first = text.partition('\n')[0]
    names = [re.sub(r'[\s_"#.-]', '', name).lower() for name in first.split(',')]
    found: dict[str, str] = {}
    for kind, spellings in COLUMNS.items():
        name = next((each for each in spellings if each in names and each not in found), None)
        if name is not None:
            found[name] = kind
    kinds = [found.get(name, '') for name in names]
    corners = {*CORNERS} <= {*kinds} or {*SIDES} <= {*kinds} or 'box' in kinds
    if 'name' in kinds and corners:
        return kinds
    return columns_without_heading(first)


def columns_without_heading(first: str) -> list[str] | None:
    return next((k for p, k in WITHOUT_HEADING.items() if p.match(first.strip())), None)


def read(tree: Tree, paths: list[Path], findings: faults.Findings) -> DataSet:
    """Read the files of :func:`find`."""
    names = read_names(tree, findings)
    builder = Builder(tree, findings)
    for path in paths:
        text = require_text(path, findings)
        try:
            rows = list(rows_of(text))
        except csv.Error as error:
            raise UserError(f'{path} cannot be read as CSV: {error}') from error
        kinds = columns_of(text) or []
        if 'class' not in kinds and '' in kinds:
            heading = text.partition('\n')[0].strip()
            where = f'{path}: the class, which is {ONLY!r}, as no column of {heading:.200} is one'
            findings.add(faults.FILLED, where)
        is_relative = any('.' in row.get('left', '') for _, row in rows) and all(
            is_fraction(row) for _, row in rows
        )
        boxes = [row for _, row in rows if row.get('left') or row.get('box')]
        has_sizes = bool(boxes) and all(map(has_size, boxes))
        for line, row in rows:
            size = size_of(row.get('high'), row.get('wide')) if has_sizes else None
            read_row(path, line, row, names, builder, is_relative, size)
    return builder.build(NAME, paths)


def rows_of(text: str) -> Iterator[tuple[int, Row]]:
    """Line and values of every row, by kind of column."""
    kinds = columns_of(text) or ()
    heading = 0 if columns_without_heading(text.partition('\n')[0]) else 1
    reader = csv.reader(io.StringIO(text))
    for values in reader:
        if values and reader.line_num > heading:
            row = zip(kinds, values, strict=False)
            yield reader.line_num, {kind: value.strip() for kind, value in row if kind}


def is_fraction(row: Row) -> bool:
    keys = CORNERS if 'right' in row else SIDES
    with suppress(ValueError):
        return all(1 - LIMIT <= float(row.get(key) or 0) <= LIMIT for key in keys)
    return False


def has_size(row: Row) -> bool:
    """Whether width and height are the image's: beside corners, and not below them."""
    size = size_of(row.get('high'), row.get('wide'))
    if size and {'right', 'bottom'} <= row.keys():
        with suppress(ValueError):
            return float(row['bottom']) <= size[0] + 1 and float(row['right']) <= size[1] + 1
    return False


def read_names(tree: Tree, findings: faults.Findings) -> dict[str, str]:
    """The names of classes that a table beside the boxes has for its codes, such as /m/01g317."""
    names = {}
    for path in (path for path in tree.files if path.suffix.lower() == '.csv'):
        if TABLES.match(path.name.lower()) and path != tree.given:
            for line in (read_text(path, findings) or '').splitlines():
                code, _, name = line.partition(',')
                if code.startswith('/m/'):
                    names[code] = name.strip().strip('"')
    return names


def read_row(
    path: Path,
    line: int,
    row: Row,
    names: dict[str, str],
    builder: Builder,
    is_relative: bool,
    size: Size | None,
) -> None:
    """Add an image, and the box of a row unless its values are empty."""
    where = f'{path}, line {line}'
    split = split_in(row.get('split') or '') or split_of_file(path, builder.root)
    picture = builder.picture(row.get('name') or '', path, where, size, split)
    keys = CORNERS if 'right' in row else SIDES
    if picture is None or not any(row.get(k) for k in (['box'] if 'box' in row else keys)):
        return
    try:
        if 'box' in row:
            left, top, wide, high = map(number, re.split(r'[,\s]+', row['box'].strip('[]() ')))
        else:
            left, top, wide, high = (number(row.get(key)) for key in keys)
        if keys is CORNERS and 'box' not in row:
            wide, high = wide - left, high - top
    except ValueError as error:
        builder.broken(picture, where, error)
        return
    name = row.get('class') or ('' if 'class' in row else ONLY)
    more = dict(is_relative=is_relative, is_crowd=row.get('crowd') == '1')
    builder.add(picture, names.get(name, name), where, box=(left, top, wide, high), **more)
