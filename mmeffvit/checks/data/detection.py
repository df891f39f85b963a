"""A data set of a detector: its annotation file, its images, and what the host makes of both."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mmengine.dataset import BaseDataset

from mmeffvit.utils.images import Unreadable, read_size
from mmeffvit.utils.progress import in_threads
from mmeffvit.utils.quiet import quiet

from . import report as kinds
from .coco import (
    CocoFile,
    check_boxes,
    check_categories,
    check_links,
    check_masks,
    count_classes,
    read_coco,
)
from .images import Sample, make_lookup
from .report import Report

Expected = tuple[Path, tuple[int, int] | None]  # an image and its height and width, if told


def is_coco(dataset: BaseDataset) -> bool:
    """Whether the host reads the annotation file as COCO's, not as that of a relative."""
    try:
        from mmdet.datasets import CocoDataset
    except ImportError:
        return False
    return type(dataset).load_data_list is getattr(CocoDataset, 'load_data_list', None)


def check_coco(dataset: BaseDataset, report: Report, sample: Sample, *, with_masks: bool) -> None:
    """Check every record of the annotation file, that all images are there, and open some."""
    file = read_coco(dataset.ann_file, report)
    if file is None:
        return
    check_file(file, dataset.metainfo['classes'], report, with_masks=with_masks)
    folder = Path(dataset.data_prefix.get('img') or '')
    expected = [
        (folder / image['file_name'], (image['height'], image['width']))
        for image in file.images.values()
    ]
    numbers = f'{len(file.images):,} images, {len(file.annotations):,} annotations'
    del file  # before the host reads it again: that of COCO takes gigabytes
    opened = check_images(expected, report, sample)
    report.facts.insert(0, f'{numbers}, {opened:,} images opened')
    check_host(dataset, report)


def check_file(file: CocoFile, classes: Sequence[str], report: Report, *, with_masks: bool) -> None:
    check_links(file, report)
    check_categories(file, classes, report)
    check_boxes(file, report)
    if with_masks:
        check_masks(file, report)
    else:
        report.facts.append('masks were not looked at, the config does not read them')
    count_classes(file, classes, report)


def check_images(expected: Sequence[Expected], report: Report, sample: Sample) -> int:
    """Look for all images and open some of them.

    Returns:
        How many were opened.
    """
    if not expected:
        report.add(kinds.EMPTY, report.source)
    exists = make_lookup()
    present = []
    for path, size in expected:
        if exists(path):
            present.append((path, size))
        else:
            report.add(kinds.IMAGE_MISSING, path)
    chosen = sample.choose(present)
    sizes = in_threads(size_or_fault, [path for path, _ in chosen], f'{report.name}: images')
    for (path, told), size in zip(chosen, sizes, strict=True):
        if isinstance(size, Unreadable):
            report.add(kinds.IMAGE_BROKEN, size)
        elif told is not None and size != told:
            report.add(
                kinds.IMAGE_SIZE, f'{path} is {size[1]} x {size[0]}, not {told[1]} x {told[0]}'
            )
    return len(chosen)


def size_or_fault(path: Path) -> tuple[int, int] | Unreadable:
    try:
        return read_size(path)
    except Unreadable as fault:
        return fault


def check_host(dataset: BaseDataset, report: Report) -> bool:
    """Let the host read the data set; its complaint counts where nothing else explains it."""
    try:
        with quiet():
            dataset.full_init()
    except Exception as error:  # whatever the host or a user's class raises
        if not report.broken:
            report.add(kinds.HOST_REFUSES, f'{type(error).__name__}: {error}')
        return False
    report.facts.append(f'{type(dataset).__name__} keeps {len(dataset):,} images')
    return True


def check_other(dataset: BaseDataset, report: Report, sample: Sample) -> None:
    """Check the images of a data set in a format of its own."""
    report.facts.append('annotations were not looked at, their format is not known here')
    if not check_host(dataset, report):
        return
    rows: list[dict[str, Any]] = [dataset.get_data_info(i) for i in range(len(dataset))]
    expected: list[Expected] = []
    for row in rows:
        if isinstance(row.get('img_path'), str):
            size = (row['height'], row['width']) if 'height' in row and 'width' in row else None
            expected.append((Path(row['img_path']), size))
    report.num_records = len(expected)
    opened = check_images(expected, report, sample)
    report.facts.append(f'{len(expected):,} images, {opened:,} opened')
