"""Convert a user's dataset to files that mmdet or mmseg reads."""

import gc
import os
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from mmeffvit.errors import UserError
from mmeffvit.utils.files import write_file
from mmeffvit.utils.messages import logger
from mmeffvit.utils.text import align, check_names, counted, listed, most_frequent

from .check import check
from .detect import Found, Task, detect
from .faults import LOST, Findings
from .files import Sample
from .formats import masks
from .records import DataSet, Picture
from .write import Split, write_coco, write_label_maps

LISTING = 'faults.txt'  # beside what was written
FRACTION = 0.2  # of the images, held out for validation
MAX_VALIDATION = 5000  # as in COCO: more take time and hardly change a metric


@dataclass(frozen=True)
class PrepareOptions:
    """Options for reading a dataset."""

    format: str | None = None  # one of ``FORMATS``; None detects it
    found: Found | None = None  # what ``detect`` found, if it was called
    # folder of images, relative to the dataset, for what cannot be guessed
    images: Path | None = None
    masks: Path | None = None  # folder of their label maps
    for_segmentor: bool = False  # write label maps rather than boxes and masks in COCO format
    needs_masks: bool = False  # objects without a mask are faults
    skip_broken: bool = False  # leave out what is broken, however much, and the images with it
    strict: bool = False  # warnings are errors
    crowds_are_objects: bool = False  # read crowd regions and difficult objects as any other
    # with ``skip_broken``, keep images of which some objects are left
    keep_partly_broken: bool = False
    seed: int = 0  # seed of a new validation split
    fraction: float = FRACTION  # of the images in it


Reader = Callable[[Path, PrepareOptions], DataSet]


@contextmanager
def without_collection() -> Iterator[None]:
    """Pause the search for cycles: a million objects have none, and it takes 30 % of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@without_collection()
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
    judge(data, out, options)
    check_trainable(data)
    data.splits = {name: part for name, part in data.splits.items() if part or name == 'train'}
    split_off(data, options)
    written = (write_label_maps if options.for_segmentor else write_coco)(data, out)
    logger.info('\n'.join(summary(data)))
    return data, written


def judge(
    data: DataSet, folder: Path, options: PrepareOptions, sample: Sample | None = None
) -> str:
    """Check a dataset, stop at errors that are not skipped, and leave out what is lost otherwise.

    All findings are written to ``faults.txt`` in the ``folder``.

    Returns:
        Names and numbers of what is left out; empty if nothing is.
    """
    findings = data.findings
    findings.strict = options.strict
    check(
        data,
        needs_masks=options.needs_masks,
        crowds_are_objects=options.crowds_are_objects,
        sample=sample,
    )
    write_file(folder / LISTING, findings.describe(None) + '\n')
    if findings.counts:
        logger.info(f'{findings.describe()}\nall of these: {folder / LISTING}')
    if ignored := findings.ignored():
        logger.info(f'ignored: {ignored}')
    left_out = findings.stop(skip_broken=options.skip_broken)
    if left_out:
        logger.info(f'left out: {left_out}{leave_out_broken(data, options)}')
    return left_out


def leave_out_broken(data: DataSet, options: PrepareOptions) -> str:
    """Skip images with invalid annotations: unannotated objects would be learned as background."""
    total = sum(map(len, data.splits.values()))
    for split, pictures in data.splits.items():
        data.splits[split] = [
            p for p in pictures if not p.num_broken or (options.keep_partly_broken and p.objects)
        ]
    number = total - sum(map(len, data.splits.values()))
    if number > LOST * total and not options.skip_broken:
        raise UserError(
            f'{number:,} of {counted(total, "image")} have errors, see above: '
            f'{data.findings.advice("--skip-broken skips them")}'
        )
    whole = ' without other objects' if options.keep_partly_broken else ''
    return f'; images with broken objects{whole}: {number:,}' if number else ''


def check_trainable(data: DataSet) -> None:
    """Reject data that would teach nothing, or whose metrics would measure nothing."""
    if data.has_label_maps and data.splits.get('train', True):
        if data.pixels and not any(data.pixels[label] for label in range(len(data.classes))):
            raise UserError(
                f'{data.root}: every pixel of the label maps is ignored: there is nothing to train '
                'on; the ignored value is 255, or the class `void`'
            )
        return
    crowds = [item.is_crowd for item in data.objects()]
    if crowds and all(crowds):
        raise UserError(
            f'{data.root}: every object is a crowd region (iscrowd 1, as the brush of CVAT writes '
            'them) or difficult, which training ignores, so that nothing would be learned: '
            f'{"correct them" if data.findings.name else "give --crowds-are-objects"}'
        )
    empty = [s for s in data.splits if all(item.is_crowd for item in data.objects(s))]
    if 'train' in empty:
        raise UserError(
            f'{data.root}: no object in any training image: there is nothing to train on'
        )
    if 'val' in empty and data.splits['val']:
        other = data.findings.advice('remove this split, and a fifth of the images is held out')
        raise UserError(
            f'{data.root}: no object in any image of val, so that no metric can be computed: '
            f'annotate them, or {other}'
        )
    if 'test' in empty and data.splits['test']:
        images = counted(len(data.splits.pop('test')), 'image')
        logger.info(f'no object in the {images} of test, which is not used: nothing to measure')


def split_off(data: DataSet, options: PrepareOptions) -> None:
    """Hold out ``data.splits['val']``, unless there is one or a test split to take its place.

    The split is seeded and stratified: classes are split from the rarest to the most frequent. No
    class loses its last image to train on, if other images can be held out. Copies of an image,
    known once they were inspected, stay together.
    """
    if not data.splits.get('val') and data.splits.get('test'):
        data.splits['val'] = data.splits.pop('test')
        return
    if data.splits.get('val'):
        return
    pictures = sorted(data.splits['train'], key=lambda picture: picture.path)
    random.Random(options.seed).shuffle(pictures)
    copies: dict[bytes | Path, list[Picture]] = defaultdict(list)
    for picture in pictures:
        copies[picture.digest or picture.path].append(picture)
    groups = list(copies.values())
    if len(groups) < 2:
        raise UserError(
            f'{data.root} has {counted(len(groups), "distinct image")}; training needs two or more'
        )
    number = min(max(1, round(options.fraction * len(groups))), MAX_VALIDATION, len(groups) - 1)
    chosen = held_out(groups, number, options.fraction)
    for name in ('train', 'val'):
        parts = [group for i, group in enumerate(groups) if (i in chosen) == (name == 'val')]
        data.splits[name] = sorted(chain.from_iterable(parts), key=lambda picture: picture.path)
    data.made_split = dict(seed=options.seed, fraction=options.fraction)


def held_out(groups: list[list[Picture]], number: int, fraction: float) -> set[int]:
    """Indices of the images, each with its copies, that are held out."""
    labels = [{item.label for picture in group for item in picture.objects} for group in groups]
    having: dict[int, list[int]] = defaultdict(list)  # indices of the images with a class
    for i, found in enumerate(labels):
        for label in found:
            having[label].append(i)
    chosen: set[int] = set()
    held: Counter[int] = Counter()

    def is_last(i: int) -> bool:
        return any(held[label] == len(having[label]) - 1 for label in labels[i])

    for label, places in sorted(having.items(), key=lambda pair: (len(pair[1]), pair[0])):
        wanted = max(1, round(fraction * len(places)))
        for i in places:
            if len(chosen) == number or held[label] >= wanted:
                break
            if i not in chosen and not is_last(i):
                chosen.add(i)
                held.update(labels[i])
    for takes_last in (False, True):
        for i in range(len(groups)):
            if len(chosen) < number and i not in chosen and (takes_last or not is_last(i)):
                chosen.add(i)
                held.update(labels[i])
    return chosen


def read(path: Path, options: PrepareOptions) -> DataSet:
    """Read a dataset in its format.

    Raises:
        UserError: If the format is not known.
    """
    if (options.images is None) != (options.masks is None):
        raise UserError('--images and --masks belong together: give both')
    if options.images is not None:
        folders = [Path(os.path.abspath(path / each)) for each in (options.images, options.masks)]
        if absent := [folder for folder in folders if not folder.is_dir()]:
            raise UserError(f'{absent[0]} is not a folder; --images and --masks begin in {path}')
        data = masks.read_folders(*folders, Findings())
    else:
        found = options.found or detect(path, options.format)
        found = found.for_task(Task.LABEL_MAPS) if options.for_segmentor else found
        logger.info(str(found))
        data = found.read()
    check_classes(data)
    return data


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
    if data.has_label_maps:
        return [*align([('', *names.values()), images]), *class_lines(data)]
    counts = {name: data.count(name) for name in data.splits}
    rows: list[Sequence[str]] = [
        (name, *(f'{counts[split][label]:,}' for split in data.splits))
        for label, name in enumerate(data.classes)
    ]
    shown, rest = (rows, []) if all_classes else most_frequent(rows)
    return [*align([('', *names.values()), images, *shown]), *rest]


def class_lines(data: DataSet) -> list[str]:
    """The classes of label maps, their shares of the pixels, and what is ignored."""
    total = data.pixels.total() or 1
    shares = [f'{name} {data.pixels[i] / total:.1%}' for i, name in enumerate(data.classes)]
    return [
        f'classes: {listed(data.classes, 50)}',
        *([f'pixels: {listed(shares, 50)}'] if data.pixels else []),
        *([f'ignored: {listed(data.ignored)}'] if data.ignored else []),
    ]
