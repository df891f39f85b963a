"""Comparison of annotations with their images, and with what training needs."""

from collections.abc import Sequence
from pathlib import Path

from mmeffvit.utils.images import ImageFacts, Unreadable, inspect
from mmeffvit.utils.messages import in_threads

from . import faults
from .faults import Fault
from .formats.coco_file import MIN_SIDE, SLACK, is_number, within
from .formats.label_maps import check_label_map
from .records import DataSet, Object, Picture, Size, in_words


def check(data: DataSet, *, needs_masks: bool = False) -> None:
    """Check every image and object: invalid ones are removed, the sizes of images are filled in."""
    for split, pictures in data.splits.items():
        facts = in_threads(look_at, [p.path for p in pictures], f'{split}: images')
        pairs = list(zip(pictures, facts, strict=True))
        data.splits[split] = [p for p, found in pairs if check_picture(p, found, data, needs_masks)]
    check_overlap(data)
    seen = data.count('train')
    for label, name in enumerate(data.classes):
        if not data.has_label_maps and not seen[label]:
            data.findings.add(faults.CLASS_EMPTY, repr(name))


def look_at(path: Path) -> ImageFacts | Unreadable:
    try:
        return inspect(path)
    except Unreadable as fault:
        return fault


def check_picture(
    picture: Picture, facts: ImageFacts | Unreadable, data: DataSet, needs_masks: bool
) -> bool:
    """Whether an image can be trained on, after its invalid objects are removed."""
    if fault := image_fault(picture, facts):
        kind, text = fault
        data.findings.add(kind, text)
        return False
    assert isinstance(facts, ImageFacts)
    picture.size, picture.digest = facts.size, facts.digest
    if facts.is_rotated and picture.recorded is None:
        data.findings.add(faults.EXIF_UPRIGHT, picture.path)
    if data.has_label_maps:
        return check_label_map(picture, data)
    for item in picture.objects:
        item.scale(facts.size)
    before = len(picture.objects)
    picture.objects = [
        item for item in picture.objects if check_object(item, facts.size, data, needs_masks)
    ]
    picture.num_broken += before - len(picture.objects)
    if not picture.objects and not picture.num_broken:
        data.findings.add(faults.WITHOUT_OBJECTS, picture.path)
    return True


def image_fault(picture: Picture, facts: ImageFacts | Unreadable) -> tuple[Fault, str] | None:
    path = str(picture.path)
    try:
        path.encode()
    except UnicodeEncodeError:
        return faults.NAME_BROKEN, path
    if isinstance(facts, Unreadable):
        return faults.IMAGE_BROKEN, str(facts)
    if facts.bits > 8:
        return faults.IMAGE_DEEP, path
    if facts.mode == 'CMYK':
        return faults.IMAGE_CMYK, path
    if picture.recorded in (None, facts.size):
        return None
    sizes = f'{path} is {in_words(facts.size)}, annotated as {in_words(picture.recorded)}'
    if picture.recorded != facts.size[::-1]:
        return faults.SIZE_DIFFERS, sizes
    return faults.IMAGE_ROTATED if facts.is_rotated else faults.SIZE_SWAPPED, sizes


def check_object(item: Object, size: Size, data: DataSet, needs_masks: bool) -> bool:
    """Whether an object can be trained on; it is clipped to its image."""
    left, top, width, height = item.box
    image = dict(height=size[0], width=size[1])
    corners = (left, top, left + width, top + height)
    shown = ', '.join(f'{value:.1f}' for value in corners)
    fault = object_fault(item, corners, image, needs_masks)
    if fault:
        data.findings.add(fault, f'{item.where}: {shown} in {in_words(size)} pixels')
        return False
    left, right = (min(max(value, 0.0), float(size[1])) for value in corners[0::2])
    top, bottom = (min(max(value, 0.0), float(size[0])) for value in corners[1::2])
    item.box = (left, top, right - left, bottom - top)
    return True


def object_fault(
    item: Object, corners: Sequence[float], image: dict, needs_masks: bool
) -> Fault | None:
    """Why an object cannot be trained on; None if it can."""
    if not all(map(is_number, corners)):
        return faults.RECORD_BROKEN
    if min(item.box[2:]) < MIN_SIDE:
        return faults.BOX_EMPTY
    polygons = item.mask if isinstance(item.mask, list) else []
    if not all(within(points, image, SLACK) for points in (corners, *polygons)):
        return faults.BOX_OUTSIDE
    return faults.MASK_ABSENT if needs_masks and not item.mask else None


def check_overlap(data: DataSet) -> None:
    """Remove images from validation and test whose content is in the training split.

    For images with annotations, predictions are removed instead.
    """
    annotated = {p.digest for part in data.splits.values() for p in part if not p.is_predicted}
    data.splits['train'] = [
        p for p in data.splits['train'] if not (p.is_predicted and p.digest in annotated)
    ]
    trained = {picture.digest: picture.path for picture in data.splits['train']}
    for split in [name for name in data.splits if name != 'train']:
        for picture in data.splits[split]:
            if picture.digest in trained:
                text = f'{picture.path} ({split}) is {trained[picture.digest]} (train)'
                data.findings.add(faults.OVERLAP, text)
        data.splits[split] = [p for p in data.splits[split] if p.digest not in trained]
