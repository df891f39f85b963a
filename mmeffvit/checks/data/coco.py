"""Annotation files in the format of COCO: every record of them, before a host drops any."""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from mmeffvit.utils.progress import progress

from . import report as kinds
from .report import Kind, Report

Record = dict[str, Any]

LISTS = ('images', 'annotations', 'categories')
MIN_SIDE = 1.0  # pixels; mmdet leaves out smaller boxes
SLACK = 1.0  # pixels by which a box may stand out of its image: files are rounded


class CocoFile:
    """The whole records of an annotation file; what is not whole is reported.

    Args:
        content: What the JSON file holds.
        report: Gets the records with a field missing, and ids that come again.
    """

    def __init__(self, content: dict[str, list], report: Report) -> None:
        complete = {
            name: [record for record in content[name] if is_complete(record, name, report)]
            for name in LISTS
        }
        self.images = without_repeated(complete['images'], kinds.IMAGE_TWICE, report)
        self.categories = without_repeated(complete['categories'], kinds.CATEGORY_TWICE, report)
        self.annotations = complete['annotations']
        # those of incomplete records too: an annotation of one has no fault of its own
        self.image_ids = ids_in(content['images'])
        self.category_ids = ids_in(content['categories'])
        # two annotations with one id are both looked at: either may be wrong
        without_repeated(self.annotations, kinds.ANNOTATION_TWICE, report)

    def of_known_images(self) -> Iterator[tuple[Record, Record]]:
        """Every annotation with its image."""
        for annotation in self.annotations:
            image = self.images.get(annotation['image_id'])
            if image is not None:
                yield annotation, image


def read_coco(path: str, report: Report) -> CocoFile | None:
    """Read an annotation file, or report that it cannot be read and return None."""
    try:
        content = json.loads(Path(path).read_bytes())
    except (OSError, ValueError) as error:
        report.add(kinds.FILE_UNREADABLE, f'{path} ({error})')
        return None
    absent = [
        name
        for name in LISTS
        if not (isinstance(content, dict) and isinstance(content.get(name), list))
    ]
    if absent:
        report.add(kinds.FILE_UNREADABLE, f'{path} (no list of {", ".join(absent)})')
        return None
    report.num_records = len(content['annotations'])
    return CocoFile(content, report)


def ids_in(records: list) -> set[int | str]:
    return {r['id'] for r in records if isinstance(r, dict) and is_id(r.get('id'))}


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def is_size(value: Any) -> bool:
    return isinstance(value, int) and value > 0


def is_id(value: Any) -> bool:
    return isinstance(value, int | str)


def is_box(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 4 and all(map(is_number, value))


FIELDS: dict[str, dict[str, Callable[[Any], bool]]] = {
    'images': dict(id=is_id, file_name=lambda v: isinstance(v, str), height=is_size, width=is_size),
    'annotations': dict(id=is_id, image_id=is_id, category_id=is_id, bbox=is_box, area=is_number),
    'categories': dict(id=is_id, name=lambda v: isinstance(v, str)),
}


def is_complete(record: Any, name: str, report: Report) -> bool:
    if not isinstance(record, dict):
        report.add(kinds.RECORD_INCOMPLETE, f'{record!r:.40} among {name}')
        return False
    wrong = [key for key, fits in FIELDS[name].items() if not fits(record.get(key))]
    if wrong:
        values = ', '.join(f'{key} {record.get(key)!r:.40}' for key in wrong)
        report.add(kinds.RECORD_INCOMPLETE, f'{values} in {name}, id {record.get("id")!r}')
    return not wrong


def without_repeated(records: list[Record], kind: Kind, report: Report) -> dict[Any, Record]:
    """The records by their id; those that use an id again are reported and left out."""
    by_id: dict[Any, Record] = {}
    for record in records:
        if record['id'] in by_id:
            report.add(kind, f'id {record["id"]}')
        else:
            by_id[record['id']] = record
    return by_id


def check_links(file: CocoFile, report: Report) -> None:
    """Annotations must belong to an image and a category of the file."""
    for annotation in file.annotations:
        if annotation['id'] == 0:
            report.add(kinds.ANNOTATION_ZERO, describe(annotation))
        for key, known, kind in (
            ('image_id', file.image_ids, kinds.IMAGE_UNKNOWN),
            ('category_id', file.category_ids, kinds.CATEGORY_UNKNOWN),
        ):
            if annotation[key] not in known:
                report.add(kind, f'annotation {annotation["id"]}, {key} {annotation[key]}')
    annotated = {annotation['image_id'] for annotation in file.annotations}
    for number, image in file.images.items():
        if number not in annotated:
            report.add(kinds.WITHOUT_ANNOTATION, image['file_name'])


def check_categories(file: CocoFile, classes: Sequence[str], report: Report) -> None:
    """Compare the classes of the config with the categories; the host numbers by their order."""
    names = [category['name'] for category in file.categories.values()]
    for name, count in Counter(names).items():
        if count > 1:
            report.add(kinds.CATEGORY_TWICE, f'name {name!r}')
    for name in classes:
        if name not in names:
            report.add(kinds.CLASS_MISSING, repr(name))
    common = [name for name in names if name in classes]
    moved = [pair for pair in zip(common, classes, strict=False) if pair[0] != pair[1]]
    if moved and set(classes) <= set(names):
        theirs, ours = moved[0]
        report.add(kinds.CLASS_ORDER, f'{ours!r} where the file has {theirs!r}')
    for annotation in file.annotations:
        category = file.categories.get(annotation['category_id'])
        if category is not None and category['name'] not in classes:
            report.add(kinds.CLASS_LEFT_OUT, f'{category["name"]!r}')


def check_boxes(file: CocoFile, report: Report) -> None:
    for annotation, image in file.of_known_images():
        left, top, width, height = annotation['bbox']
        if min(width, height) < MIN_SIDE or annotation['area'] <= 0:
            report.add(kinds.BOX_EMPTY, describe(annotation, image))
        elif (
            min(left, top) < -SLACK
            or left + width > image['width'] + SLACK
            or top + height > image['height'] + SLACK
        ):
            report.add(kinds.BOX_OUTSIDE, describe(annotation, image))


def check_masks(file: CocoFile, report: Report) -> None:
    """Decode every mask, as far as needed to know that it decodes."""
    pairs = file.of_known_images()
    for annotation, image in progress(pairs, f'{report.name}: masks', len(file.annotations)):
        mask = annotation.get('segmentation')
        size = (image['height'], image['width'])
        if isinstance(mask, dict) and tuple(mask.get('size') or ()) != size:
            report.add(kinds.MASK_SIZE, f'{mask.get("size")} of {describe(annotation, image)}')
            continue
        reason = mask_fault(mask, size)
        if reason:
            report.add(kinds.MASK_BROKEN, f'{reason} in {describe(annotation, image)}')


def mask_fault(mask: Any, size: tuple[int, int]) -> str | None:
    """Why a mask does not decode: None if it does.

    Args:
        mask: Polygons as lists of x and y, or a run-length code.
        size: Height and width of the image, in pixels.
    """
    from pycocotools import mask as coco_mask  # a requirement of mmdet, not of this package

    if not mask:
        return 'no mask'
    if isinstance(mask, list):
        for polygon in mask:
            if not isinstance(polygon, list) or len(polygon) < 6 or len(polygon) % 2:
                return 'a polygon without three points'
            if not all(map(is_number, polygon)):
                return 'a polygon with a point that is no number'
        return None
    try:
        code = mask
        if isinstance(mask['counts'], list):
            if sum(mask['counts']) != math.prod(size):
                return 'run lengths that do not fill the image'
            code = coco_mask.frPyObjects(mask, *size)
        coco_mask.decode(code)
    except Exception as error:  # pycocotools raises whatever its C code meets
        return f'{type(error).__name__} ({error})'
    return None


def describe(annotation: Record, image: Record | None = None) -> str:
    box = [round(value, 1) for value in annotation['bbox']]
    where = f' in {image["file_name"]} ({image["width"]} x {image["height"]})' if image else ''
    return f'annotation {annotation["id"]}, box {box}{where}'


def count_classes(file: CocoFile, classes: Sequence[str], report: Report) -> None:
    """Fill the table: images, annotations and crowds of every class."""
    images: dict[str, set] = defaultdict(set)
    boxes: Counter[str] = Counter()
    crowds: Counter[str] = Counter()
    for annotation in file.annotations:
        category = file.categories.get(annotation['category_id'])
        if category is not None:
            name = category['name']
            images[name].add(annotation['image_id'])
            boxes[name] += 1
            crowds[name] += bool(annotation.get('iscrowd'))
    report.table = [('class', 'images', 'annotations', 'crowds')]
    for name in classes:
        row = (len(images[name]), boxes[name], crowds[name])
        report.table.append((name, *(f'{number:,}' for number in row)))
        if not boxes[name]:
            report.add(kinds.CLASS_EMPTY, repr(name))
