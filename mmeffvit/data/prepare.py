"""Convert a user's dataset to files that mmdet or mmseg reads."""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from mmeffvit.errors import UserError
from mmeffvit.utils.files import write_file
from mmeffvit.utils.messages import logger
from mmeffvit.utils.text import align, check_names, counted, listed, most_frequent

from .check import check
from .faults import Findings
from .formats import coco, masks, voc, yolo
from .records import DataSet, Picture
from .write import Split, write_coco, write_label_maps

FRACTION = 0.2  # of the images, held out for validation
MAX_VALIDATION = 5000  # as in COCO: more take time and hardly change a metric
# of each format: find(path) returns what it found, or None, and read(found, findings) a dataset;
# UserError if that is ambiguous, incomplete or malformed
FORMATS = {'coco': coco, 'yolo': yolo, 'voc': voc, 'masks': masks}
# for a folder in two formats: a segmentor prefers label maps to boxes
ORDER = {False: ('coco', 'yolo', 'voc', 'masks'), True: ('masks', 'coco', 'yolo', 'voc')}
LAYOUTS = (
    'a folder in COCO format (annotations/*.json with images/, or _annotations.coco.json next to '
    'them), YOLO format (data.yaml with names, train and val, images/ and labels/), Pascal VOC '
    'format (.xml files with their images), for segmentors images/ and masks/, or for classifiers '
    'a folder of images per class'
)


@dataclass(frozen=True)
class PrepareOptions:
    """Options for reading a dataset.

    Args:
        format: One of ``FORMATS``; None detects it.
        for_segmentor: Write label maps rather than boxes and masks in COCO format.
        needs_masks: Objects without a mask are faults.
        skip_broken: Leave out what is broken, and the images with it.
        keep_partly_broken: With ``skip_broken``, keep images of which some objects are left.
        seed: Seed of a new validation split.
        fraction: Fraction of the images in it.
    """

    format: str | None = None
    for_segmentor: bool = False
    needs_masks: bool = False
    skip_broken: bool = False
    keep_partly_broken: bool = False
    seed: int = 0
    fraction: float = FRACTION


Reader = Callable[[Path, PrepareOptions], DataSet]


def prepare(
    path: Path, out: Path, options: PrepareOptions, reader: Reader | None = None
) -> tuple[DataSet, dict[str, Split]]:
    """Read a dataset, check every image and annotation, and write its index.

    Args:
        path: A folder or a file; nothing in it is changed.
        out: Folder for the index and for ``faults.txt`` with all faults.
        options: See :class:`PrepareOptions`.
        reader: Reads the dataset; :func:`read` by default.

    Returns:
        The dataset, and its splits as written.

    Raises:
        UserError: If the format is not known, or the dataset has faults that are not skipped.
    """
    if not 0 < options.fraction < 1:
        raise UserError(f'--val-fraction is {options.fraction}; give a number between 0 and 1')
    data = (reader or read)(path, options)
    logger.info(f'{data.root}: {data.format}, {counted(len(data.classes), "class")}')
    check(data, needs_masks=options.needs_masks)
    write_file(out / 'faults.txt', data.findings.describe(None) + '\n')
    if data.findings.counts:
        logger.info(f'{data.findings.describe()}\nall of these: {out / "faults.txt"}')
    left_out = data.findings.stop(skip_broken=options.skip_broken)
    if left_out:
        more = leave_out_broken(data, options.keep_partly_broken)
        logger.info(f'left out: {left_out}{more}')
    if not any(data.splits.values()) or not (data.has_label_maps or any(data.objects('train'))):
        raise UserError(
            f'{data.root}: no object in any training image: there is nothing to train on'
        )
    data.splits = {name: part for name, part in data.splits.items() if part or name == 'train'}
    split_off(data, options)
    written = (write_label_maps if options.for_segmentor else write_coco)(data, out)
    logger.info('\n'.join(summary(data)))
    return data, written


def leave_out_broken(data: DataSet, keep_partly_broken: bool) -> str:
    """Skip images with invalid annotations: unannotated objects would be learned as background."""
    number = 0
    for split, pictures in data.splits.items():
        kept = [p for p in pictures if not p.num_broken or (keep_partly_broken and p.objects)]
        number += len(pictures) - len(kept)
        data.splits[split] = kept
    whole = ' without other objects' if keep_partly_broken else ''
    return f'; images with broken objects{whole}: {number:,}' if number else ''


def split_off(data: DataSet, options: PrepareOptions) -> None:
    """Hold out ``data.splits['val']``, unless there is one or a test split to take its place.

    The split is seeded and stratified: classes are split from the rarest to the most frequent, so
    that both parts have each class.
    """
    if not data.splits.get('val') and data.splits.get('test'):
        data.splits['val'] = data.splits.pop('test')
        return
    if data.splits.get('val'):
        return
    pictures = sorted(data.splits['train'], key=lambda picture: picture.path)
    if len(pictures) < 2:
        raise UserError(
            f'{data.root} has {counted(len(pictures), "image")}; training needs two or more'
        )
    random.Random(options.seed).shuffle(pictures)
    number = min(max(1, round(options.fraction * len(pictures))), MAX_VALIDATION)
    chosen = held_out(pictures, number, options.fraction)
    data.splits['train'] = [p for i, p in enumerate(pictures) if i not in chosen]
    data.splits['val'] = [p for i, p in enumerate(pictures) if i in chosen]
    for name in ('train', 'val'):
        data.splits[name].sort(key=lambda picture: picture.path)
    data.made_split = dict(seed=options.seed, fraction=options.fraction)


def held_out(pictures: list[Picture], number: int, fraction: float) -> set[int]:
    """Indices of the images that are held out."""
    labels = [{item.label for item in picture.objects} for picture in pictures]
    having: dict[int, list[int]] = defaultdict(list)  # indices of the images with a class
    for i, found in enumerate(labels):
        for label in found:
            having[label].append(i)
    chosen: set[int] = set()
    held: Counter[int] = Counter()
    for label, places in sorted(having.items(), key=lambda pair: (len(pair[1]), pair[0])):
        for i in places:
            if len(chosen) == number or held[label] >= round(fraction * len(places)):
                break
            if i not in chosen:
                chosen.add(i)
                held.update(labels[i])
    rest = (i for i in range(len(pictures)) if i not in chosen)
    while len(chosen) < number:
        chosen.add(next(rest))
    return chosen


def read(path: Path, options: PrepareOptions) -> DataSet:
    """Read a dataset and detect its format.

    Raises:
        UserError: If the format is not known.
    """
    path = path.resolve() if '..' in path.parts else path.absolute()
    if not path.exists():
        raise UserError(f'{str(path)!r} does not exist')
    for name in [options.format] if options.format else ORDER[options.for_segmentor]:
        module: ModuleType = FORMATS[name]
        if found := module.find(path):
            data = module.read(found, Findings())
            check_classes(data)
            return data
    wanted = f'not in {options.format} format' if options.format else 'in no known format'
    raise UserError(f'{path} is {wanted}; give {LAYOUTS}')


def check_classes(data: DataSet) -> None:
    """Reject names that are not printable text, and duplicates."""
    check_names(data.classes, str(data.root))
    twice = [name for name, count in Counter(data.classes).items() if count > 1]
    if twice:
        raise UserError(f'{data.root}: duplicate class names: {listed(map(repr, twice))}')


def summary(data: DataSet, *, all_classes: bool = False) -> Sequence[str]:
    """Images and objects of every split and class, unless there are many of the most frequent."""
    made = data.made_split
    note = f' (made with seed {made["seed"]}, {made["fraction"]:.0%})' if made else ''
    names = {name: name + (note if name == 'val' else '') for name in data.splits}
    images = ('images', *(f'{len(part):,}' for part in data.splits.values()))
    rows: list[Sequence[str]] = []
    counts = {name: data.count(name) for name in data.splits}
    if not data.has_label_maps:
        for label, name in enumerate(data.classes):
            rows.append((name, *(f'{counts[split][label]:,}' for split in data.splits)))
    shown, rest = (rows, []) if all_classes else most_frequent(rows)
    return [*align([('', *names.values()), images, *shown]), *rest]
