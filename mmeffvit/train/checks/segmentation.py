"""Checks of segmentation datasets: pairs of an image and its label map."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from mmengine.dataset import BaseDataset

from mmeffvit.data import faults
from mmeffvit.data.faults import Fault, Report
from mmeffvit.data.files import Sample, make_lookup
from mmeffvit.data.records import in_words
from mmeffvit.utils.images import Unreadable, read_labels, read_size
from mmeffvit.utils.messages import in_threads
from mmeffvit.utils.text import listed

from .detection import check_loading


@dataclass(frozen=True)
class Pair:
    """An image and its label map; the latter may be missing in a test set."""

    image: Path
    labels: Path | None


Opened = tuple[list[tuple[Fault, str]], dict[int, int]]  # faults, and pixels by value in the file


def is_segmentation(dataset: BaseDataset) -> bool:
    try:
        from mmseg.datasets import BaseSegDataset
    except ImportError:
        return False
    return isinstance(dataset, BaseSegDataset)


def check_segmentation(dataset: BaseDataset, report: Report, sample: Sample) -> None:
    """Check that all images and label maps exist, and open some."""
    if not check_loading(dataset, report):
        return
    rows = [dataset.get_data_info(i) for i in range(len(dataset))]
    pairs = [
        Pair(Path(row['img_path']), Path(row['seg_map_path']) if 'seg_map_path' in row else None)
        for row in rows
    ]
    report.num_records = len(pairs)
    if not pairs:
        report.add(faults.EMPTY, f'no {dataset.img_suffix} in {dataset.data_prefix["img_path"]}')
    present = check_presence(pairs, report)
    if not (dataset.ann_file and os.path.isfile(dataset.ann_file)):
        check_unused_labels(dataset, pairs, report)
    chosen = sample.choose(present)
    report.facts.append(f'{len(chosen):,} of {len(pairs):,} pairs opened')
    classes = dataset.metainfo['classes']
    settings = (len(classes), dataset.ignore_index, dataset.reduce_zero_label, dataset.label_map)
    opened = in_threads(open_pair, chosen, f'{report.name}: pairs')
    images, pixels = add_up(chosen, opened, lambda value: label_of(value, *settings), report)
    fill_table(classes, images, pixels, report, complete=len(chosen) == len(pairs))


def label_of(
    value: int,
    num_classes: int,
    ignored: int = 255,
    reduce_zero_label: bool = False,
    label_map: Mapping[int, int] | None = None,
) -> int | None:
    """The class of a value in a file, as in mmseg, or ``ignored``; None if it is neither."""
    if reduce_zero_label:
        value = ignored if value in (0, ignored) else value - 1
    label = (label_map or {}).get(value, value)
    return label if label == ignored or 0 <= label < num_classes else None


def check_presence(pairs: Sequence[Pair], report: Report) -> list[Pair]:
    """Report missing files and return the complete pairs."""
    exists = make_lookup()
    seen: set[Path] = set()
    complete = []
    for pair in pairs:
        if pair.image in seen:
            report.add(faults.IMAGE_LISTED_TWICE, pair.image)
        seen.add(pair.image)
        files = ((faults.IMAGE_MISSING, pair.image), (faults.MAP_MISSING, pair.labels))
        missing = [(kind, path) for kind, path in files if path and not exists(path)]
        for kind, path in missing:
            report.add(kind, path)
        if not missing:
            complete.append(pair)
    return complete


def check_unused_labels(dataset: BaseDataset, pairs: Sequence[Pair], report: Report) -> None:
    """Report label maps without an image, which mmseg ignores if there is no list of names."""
    folder = Path(dataset.data_prefix.get('seg_map_path') or '')
    used = {pair.labels for pair in pairs}
    if not folder.is_dir() or used == {None}:
        return
    for path in sorted(folder.rglob(f'*{dataset.seg_map_suffix}')):
        if path not in used:
            report.add(faults.MAP_UNUSED, path)


def open_pair(pair: Pair) -> Opened:
    """Decode both files and compare their sizes."""
    found: list[tuple[Fault, str]] = []
    size = None
    try:
        size = read_size(pair.image)
    except Unreadable as fault:
        found.append((faults.IMAGE_BROKEN, str(fault)))
    if pair.labels is None:
        return found, {}
    try:
        labels = read_labels(pair.labels).squeeze()
    except Unreadable as fault:
        return [*found, (faults.MAP_BROKEN, str(fault))], {}
    if labels.ndim != 2:
        text = f'{pair.labels} has {labels.shape[-1]} channels'
        return [*found, (faults.MAP_COLOR, text)], {}
    if size is not None and labels.shape != size:
        sizes = f'{pair.labels} is {in_words(labels.shape)}, its image {in_words(size)}'
        found.append((faults.MAP_SIZE, sizes))
    values, counts = np.unique(labels, return_counts=True)
    return found, dict(zip(values.tolist(), counts.tolist(), strict=True))


def add_up(
    pairs: Iterable[Pair],
    opened: Iterable[Opened],
    to_label: Callable[[int], int | None],
    report: Report,
) -> tuple[Counter[int], Counter[int]]:
    """Report the faults of all pairs; count images and pixels by class or ignored value."""
    images: Counter[int] = Counter()
    pixels: Counter[int] = Counter()
    for pair, (found, counts) in zip(pairs, opened, strict=True):
        for kind, text in found:
            report.add(kind, text)
        labels = {value: to_label(value) for value in counts}
        wrong = [value for value, label in labels.items() if label is None]
        if wrong:
            report.add(faults.MAP_VALUE, f'{pair.labels} has {listed(wrong, 6)}')
        images.update({label for label in labels.values() if label is not None})
        for value, count in counts.items():
            if labels[value] is not None:
                pixels[labels[value]] += count
    return images, pixels


def fill_table(
    classes: Sequence[str],
    images: Counter[int],
    pixels: Counter[int],
    report: Report,
    *,
    complete: bool,
) -> None:
    """Fill the table: number of images and share of pixels of every class in the opened pairs.

    If all pairs were opened, classes that are in none are reported.
    """
    total = max(1, pixels.total())
    report.table = [('class', 'images', 'pixels')]
    for number, name in enumerate(classes):
        share = 100 * pixels[number] / total
        report.table.append((name, f'{images[number]:,}', f'{share:.2f}%'))
        if complete and images and not images[number]:
            report.add(faults.CLASS_EMPTY, repr(name))
    ignored = 100 * (1 - sum(pixels[i] for i in range(len(classes))) / total)
    report.table.append(('(ignored)', '', f'{ignored:.2f}%'))
