"""COCO annotation files: every record, before mmdet filters any."""

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmeffvit.data import faults
from mmeffvit.data.faults import Add, Fault, Findings
from mmeffvit.errors import UserError
from mmeffvit.utils.files import read_json
from mmeffvit.utils.optional import require
from mmeffvit.utils.quiet import quiet
from mmeffvit.utils.schema import integer_from, number_from
from mmeffvit.utils.text import name_fault

Record = dict[str, Any]

LISTS = ('images', 'annotations', 'categories')
MIN_SIDE = 1.0  # pixels; mmdet ignores smaller boxes
SLACK = 2.0  # pixels by which a box may extend beyond its image, and is clipped
# Drawing needs memory proportional to the coordinates, which no library checks; pycocotools writes
# out of bounds. Boxes and polygons may extend beyond their image by at most the size of the image.
MAX_PIXELS = 2**30  # of an image: the limit of OpenCV
MAX_ID = 2**53  # the metric stores ids as float64
UNNAMABLE = re.compile('[\0\ud800-\udfff]')  # null and surrogates, impossible in file names
MAX_DIGITS = 7  # of a run length in base 32
is_number = number_from(-MAX_ID, MAX_ID)
is_score = number_from(0, 1)
is_size = integer_from(1, MAX_PIXELS)
is_number_id = integer_from(0, MAX_ID)


class CocoFile:
    """The valid records of the content of an annotation file; invalid ones are reported."""

    def __init__(self, content: dict[str, list], add: Add) -> None:
        self.content = content
        complete = {
            name: [record for record in content[name] if is_complete(record, name, add)]
            for name in LISTS
        }
        for name in ('images', 'categories'):
            if len({type(record['id']) for record in complete[name]}) > 1:
                add(faults.RECORD_BROKEN, f'ids of {name} are both numbers and strings')
        self.images = by_unique_id(complete['images'], faults.IMAGE_DUPLICATE, add)
        self.categories = by_unique_id(complete['categories'], faults.CATEGORY_DUPLICATE, add)
        self.annotations = complete['annotations']
        # including incomplete records: their annotations are not at fault
        rows = [row for row in content['images'] if isinstance(row, dict)]
        self.image_ids = {row['id'] for row in rows if is_id(row.get('id'))}
        # annotations with duplicate ids are all checked
        by_unique_id(self.annotations, faults.ANNOTATION_DUPLICATE, add)


def read_lists(path: str | Path, lists: Sequence[str] = LISTS) -> dict[str, Any]:
    """The content of an annotation file; lists that are not required are empty if missing.

    Raises:
        UserError: If it cannot be read, or lacks a list.
    """
    content = read_json(path)
    content = content if isinstance(content, dict) else {}
    content = {name: [] for name in LISTS if name not in lists} | content
    if absent := [name for name in LISTS if not isinstance(content.get(name), list)]:
        raise UserError(f'{path} has no list of {", ".join(absent)}: it is not in COCO format')
    return content


def as_pycocotools(content: dict[str, Any]) -> Any:
    """The content of a file as pycocotools' ``COCO``, which a requirement of mmdet brings."""
    from pycocotools.coco import COCO

    coco = COCO()
    coco.dataset = {'info': {}, **content}  # it copies the info
    with quiet():
        coco.createIndex()
    return coco


def is_id(value: Any) -> bool:
    return isinstance(value, str) or is_number_id(value)


def is_box(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 4 and all(map(is_number, value))


def is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and not UNNAMABLE.search(value)


def is_flag(value: Any) -> bool:
    return value is None or (type(value) in (int, bool) and value in (0, 1))


def is_class(value: Any) -> bool:
    return name_fault(value) is None


def is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)


FIELDS: dict[str, dict[str, Callable[[Any], bool]]] = {
    'images': dict(id=is_id, file_name=is_name, height=is_size, width=is_size),
    'annotations': dict(
        id=is_number_id, image_id=is_id, category_id=is_id, bbox=is_box, area=is_number,
        iscrowd=is_flag,
    ),
    'categories': dict(id=is_id, name=is_class, supercategory=is_plain),
}  # fmt: skip


def is_complete(record: Any, name: str, add: Add) -> bool:
    if not isinstance(record, dict):
        add(faults.RECORD_BROKEN, f'{record!r:.40} among {name}')
        return False
    wrong = [key for key, is_valid in FIELDS[name].items() if not is_valid(record.get(key))]
    if name == 'images' and not wrong and record['height'] * record['width'] > MAX_PIXELS:
        wrong = ['height', 'width']
    if wrong:
        values = ', '.join(f'{key} {record.get(key)!r:.40}' for key in wrong)
        add(faults.RECORD_BROKEN, f'{values} in {name}, id {record.get("id")!r:.40}')
    return not wrong


def by_unique_id(records: list[Record], fault: Fault, add: Add) -> dict[Any, Record]:
    """The records by id; records with a duplicate id are reported and ignored."""
    by_id: dict[Any, Record] = {}
    for record in records:
        if record['id'] in by_id:
            add(fault, f'id {record["id"]}')
        else:
            by_id[record['id']] = record
    return by_id


def check_names(file: CocoFile, report: Findings) -> None:
    """Check that no two categories have the same name."""
    for name, count in Counter(row['name'] for row in file.categories.values()).items():
        if count > 1:
            report.add(faults.CATEGORY_DUPLICATE, f'name {name!r}')


def check_objects(file: CocoFile, report: Findings, *, needs_masks: bool = False) -> None:
    """Check that every box and mask can be drawn, without drawing it."""
    for annotation in file.annotations:
        image = file.images.get(annotation['image_id'])
        if image is None:
            continue
        left, top, width, height = annotation['bbox']
        if fault := box_fault((left, top, left + width, top + height), image):
            report.add(fault, describe(annotation, image))
        mask = annotation.get('segmentation')
        if (mask or needs_masks) and (found := mask_fault(mask, image)):
            kind, reason = found
            report.add(kind, f'{reason} in {describe(annotation, image)}')


def box_fault(corners: Sequence[float], image: Record | None) -> Fault | None:
    """The fault of a box: left, top, right and bottom; its image may not be known."""
    left, top, right, bottom = corners
    if image and not within(corners, image, math.inf):
        return faults.BOX_FAR
    if min(right - left, bottom - top) < MIN_SIDE:
        return faults.BOX_EMPTY
    return faults.BOX_OUTSIDE if image and not within(corners, image, SLACK) else None


def within(points: Sequence[float], image: Record, slack: float) -> bool:
    """Whether alternating x and y exceed the image by at most ``slack`` pixels or its size."""
    x, y, width, height = points[0::2], points[1::2], image['width'], image['height']
    wide, high = min(slack, width), min(slack, height)
    return (
        min(x) >= -wide and max(x) <= width + wide and min(y) >= -high and max(y) <= height + high
    )


def mask_fault(mask: Any, image: Record) -> tuple[Fault, str] | None:
    """The fault of a mask, polygons or run lengths; None if it can be decoded."""
    if not mask:
        return faults.MASK_BROKEN, 'no mask'
    if isinstance(mask, list):
        return polygon_fault(mask, image)
    size = [image['height'], image['width']]
    if not isinstance(mask, dict):
        return faults.MASK_BROKEN, f'a mask that is neither a list nor a dict: {mask!r:.40}'
    if mask.get('size') != size:
        return faults.MASK_SIZE, f'{mask.get("size")!r:.40}'
    try:
        runs = run_lengths(mask.get('counts'))
    except ValueError as error:
        return faults.MASK_BROKEN, f'{error}'
    if min(runs, default=-1) < 0 or sum(runs) != math.prod(size):
        return faults.MASK_BROKEN, 'run lengths that do not fill the image'
    return None


def polygon_fault(polygons: list, image: Record) -> tuple[Fault, str] | None:
    short = None
    for polygon in polygons:
        if not isinstance(polygon, list) or not set(map(type, polygon)) <= {int, float}:
            return faults.MASK_BROKEN, 'a polygon that is not a list of numbers'
        if len(polygon) < 6:
            short = faults.MASK_SHORT, 'a polygon without three points'
        elif len(polygon) % 2:
            short = faults.MASK_SHORT, 'a polygon with an odd number of values'
        elif not within(polygon, image, math.inf):
            return faults.MASK_BROKEN, 'a polygon with a point far outside of the image'
        elif any(map(math.isnan, polygon)):  # comparisons do not detect NaN
            return faults.MASK_BROKEN, 'a polygon with a NaN coordinate'
    return short


def run_lengths(counts: Any) -> list[int]:
    """The run lengths of a mask, from a list or from COCO's compressed string.

    The string has numbers in base 32, lowest digit first. A digit is a character, counted from '0',
    with 32 added if another digit follows; from the fourth number on, differences to the second to
    last number are stored.

    Raises:
        ValueError: If it is neither; pycocotools would read beyond the end of the string.
    """
    if isinstance(counts, list) and set(map(type, counts)) <= {int}:
        return counts
    if not isinstance(counts, str) or not counts or not counts.isascii():
        raise ValueError(f'not run lengths: {counts!r:.40}')
    digits = np.frombuffer(counts.encode(), np.uint8).astype(np.int64) - ord('0')
    ends = np.flatnonzero(digits & 32 == 0)
    if digits.min() < 0 or digits.max() > 63 or digits[-1] & 32:
        raise ValueError('run lengths that are truncated or not a COCO string')
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - starts + 1
    if lengths.max() > MAX_DIGITS:
        raise ValueError('a run length larger than any image')
    places = np.arange(len(digits)) - np.repeat(starts, lengths)
    runs: NDArray = np.add.reduceat((digits & 31) << 5 * places, starts)
    runs -= np.where(digits[ends] & 16, 1 << 5 * lengths, 0)  # the sign
    runs[1::2] = np.cumsum(runs[1::2])
    runs[2::2] = np.cumsum(runs[2::2])
    return runs.tolist()


def encode_runs(mask: NDArray) -> dict[str, Any]:
    """A (H, W) mask as COCO's compressed run lengths."""
    encode = require('pycocotools.mask', 'Writing masks').encode
    code = encode(np.asfortranarray(mask, np.uint8))
    return dict(size=list(code['size']), counts=code['counts'].decode())


def describe(annotation: Record, image: Record) -> str:
    box = [round(value, 1) for value in annotation['bbox']]
    where = f'{image["file_name"]} ({image["width"]} x {image["height"]})'
    return f'annotation {annotation["id"]}, box {box} in {where}'
