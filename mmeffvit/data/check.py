"""Comparison of annotations with their images, and with what training needs."""

from collections.abc import Iterator, Sequence

from mmeffvit.utils.images import ROTATED, UPRIGHT, ImageFacts, Unreadable, inspect, inspect_header
from mmeffvit.utils.messages import in_threads

from . import faults
from .faults import Fault
from .files import Sample
from .formats.coco_file import MIN_SIDE, SLACK, box_fault, is_number, within
from .formats.label_maps import check_label_map
from .index import ImageIndex
from .records import DataSet, Object, Picture, Size, in_words

ROUNDED = 0.51  # pixels that rounding adds
FEW = 5  # objects of a class
MANY = 10_000  # images, from which only headers are read: decoding takes minutes


def check(
    data: DataSet,
    *,
    needs_masks: bool = False,
    crowds_are_objects: bool = False,
    sample: Sample | None = None,
) -> None:
    """Check every image and object: invalid ones are removed, the sizes of images are filled in.

    Of images that are not in the ``sample``, only the annotations are checked. If ``needs_masks``,
    objects without a mask are faults.
    """
    findings = data.findings
    lost = sum(n for fault, n in findings.counts.items() if fault.left_out == faults.IMAGES)
    findings.num_images = lost + sum(map(len, data.splits.values()))
    everything = [picture for part in data.splits.values() for picture in part]
    findings.num_records = sum(len(p.objects) + p.num_broken for p in everything)
    for item in data.objects():
        item.is_crowd = item.is_crowd and not crowds_are_objects
        if item.is_crowd:
            findings.add(faults.CROWD, item.where)
    is_large = findings.num_images > MANY
    index = ImageIndex(data.root, inspect_header if is_large else inspect, findings.num_images)
    what = 'headers of images' if is_large else 'images'
    is_whole = True
    for split, pictures in data.splits.items():
        opened = sample.choose(pictures) if sample else pictures
        is_whole &= len(opened) == len(pictures)
        facts = in_threads(index.facts, [p.path for p in opened], f'{split}: {what}')
        known = {id(p): found for p, found in zip(opened, facts, strict=True)}
        data.splits[split] = [
            p for p in pictures if check_picture(p, known.get(id(p)), data, needs_masks)
        ]
    if is_whole:
        index.write()
    check_overlap(data)
    if is_whole or not data.has_label_maps:
        check_counts(data)


def check_counts(data: DataSet) -> None:
    """Note classes that are not or hardly there; without any image, that is the fault."""
    if not any(data.splits.values()):
        return
    split = 'train' if 'train' in data.splits else next(iter(data.splits))
    counts = data.pixels if data.has_label_maps else data.count(split)
    for label, name in enumerate(data.classes):
        if not counts[label]:
            data.findings.add(faults.CLASS_EMPTY, repr(name))
        elif not data.has_label_maps and counts[label] < FEW:
            data.findings.add(faults.CLASS_FEW, f'{name!r}: {counts[label]}')


def check_picture(
    picture: Picture, facts: ImageFacts | Unreadable | None, data: DataSet, needs_masks: bool
) -> bool:
    """Whether an image, if it was opened, can be trained on, after invalid objects are removed."""
    if facts is None:
        picture.size = picture.recorded
    elif fault := image_fault(picture, facts):
        kind, text = fault
        data.findings.add(kind, text)
        return False
    else:
        assert isinstance(facts, ImageFacts)
        picture.size, picture.digest = facts.size, facts.digest
        if facts.orientation != UPRIGHT and picture.recorded is None:
            data.findings.add(faults.EXIF_UPRIGHT, picture.path)
        if facts.is_cut:
            data.findings.add(faults.IMAGE_CUT, picture.path)
    if data.has_label_maps:
        return facts is None or picture.label_map is None or check_label_map(picture, data)
    found = list(without_duplicates(picture.objects, data))
    kinds = [check_object(item, picture.size, data, needs_masks) for item in found]
    picture.objects = [item for item, kind in zip(found, kinds, strict=True) if kind is None]
    # a box without area has no pixels that would be learned as background
    picture.num_broken += sum(kind not in (None, faults.BOX_EMPTY) for kind in kinds)
    if not picture.objects and not picture.num_broken:
        data.findings.add(faults.WITHOUT_OBJECTS, picture.path)
    return True


def without_duplicates(objects: Sequence[Object], data: DataSet) -> Iterator[Object]:
    """Every object once: tools repeat lines."""
    seen: dict[tuple, list] = {}  # the masks of objects that are equal otherwise
    for item in objects:
        masks = seen.setdefault((item.label, item.box, item.is_crowd, item.score), [])
        if item.mask in masks:
            data.findings.add(faults.LINE_DUPLICATE, item.where)
        else:
            masks.append(item.mask)
            yield item


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
    is_rotated = facts.orientation in ROTATED
    return faults.IMAGE_ROTATED if is_rotated else faults.SIZE_SWAPPED, sizes


def check_object(item: Object, size: Size | None, data: DataSet, needs_masks: bool) -> Fault | None:
    """Why an object cannot be trained on, a finding; otherwise it is clipped to its image.

    The size is not known of an image that is not opened.
    """
    if size:
        item.scale(size)
    left, top, width, height = item.box
    image = dict(height=size[0], width=size[1]) if size else None
    corners = (left, top, left + width, top + height)
    fault = object_fault(item, corners, image, needs_masks)
    if size and not fault:
        left, right = (min(max(value, 0.0), float(size[1])) for value in corners[0::2])
        top, bottom = (min(max(value, 0.0), float(size[0])) for value in corners[1::2])
        item.box = (left, top, right - left, bottom - top)
        fault = faults.BOX_EMPTY if min(item.box[2:]) < MIN_SIDE else None
    if fault or (image and not within(corners, image, ROUNDED)):
        shown = ', '.join(f'{value:.1f}' for value in corners)
        pixels = f' in {in_words(size)} pixels' if size else ''
        data.findings.add(fault or faults.BOX_CLIPPED, f'{item.where}: {shown}{pixels}')
    return fault


def object_fault(
    item: Object, corners: Sequence[float], image: dict | None, needs_masks: bool
) -> Fault | None:
    """Why an object cannot be trained on; None if it can."""
    if not all(map(is_number, corners)) or min(item.box[2:]) < 0:
        return faults.RECORD_BROKEN
    if fault := box_fault(corners, image):
        return fault
    polygons = item.mask if isinstance(item.mask, list) else []
    if any(len(points) < 6 for points in polygons):
        return faults.MASK_SHORT
    if image and not all(within(points, image, SLACK) for points in polygons):
        return faults.BOX_OUTSIDE
    return faults.MASK_ABSENT if needs_masks and not item.mask else None


def check_overlap(data: DataSet) -> None:
    """Remove images from validation and test whose content is in the training split.

    For images with annotations, predictions are removed instead.
    """
    if 'train' not in data.splits:
        return
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
