"""Checks of detection datasets: annotation file, images, and loading in mmdet."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mmengine.dataset import BaseDataset

from mmeffvit.data import faults
from mmeffvit.data.faults import Report
from mmeffvit.data.files import Sample, make_lookup
from mmeffvit.data.formats.coco_file import (
    LISTS,
    CocoFile,
    check_boxes,
    check_masks,
    describe,
    read_coco,
)
from mmeffvit.data.formats.voc import check_files, read_names
from mmeffvit.data.records import in_words
from mmeffvit.errors import UserError
from mmeffvit.utils.images import Unreadable, read_size
from mmeffvit.utils.messages import in_threads
from mmeffvit.utils.quiet import quiet
from mmeffvit.utils.text import counted

Expected = tuple[Path, tuple[int, int] | None]  # an image and its recorded size, if any


def reads_as(cls: Any, name: str) -> bool:
    """Whether a dataset class reads annotations with the method of this class of mmdet."""
    try:
        from mmdet import datasets
    except ImportError:
        return False
    known = getattr(datasets, name, None)
    read = getattr(cls, 'load_data_list', None)
    return known is not None and read is known.load_data_list


def check_coco(dataset: BaseDataset, report: Report, sample: Sample, *, with_masks: bool) -> None:
    """Check every record of the annotation file, that all images exist, and open some."""
    file = read_checked(dataset.ann_file, report, with_masks=with_masks)
    if file is None:
        return
    classes = dataset.metainfo['classes']
    check_links(file, report)
    check_categories(file, classes, report)
    if not with_masks:
        report.facts.append('masks were not checked, since the config does not read them')
    count_classes(file, classes, report)
    expected = images_of(file, dataset.data_prefix.get('img') or '')
    images, annotations = len(file.images), len(file.annotations)
    numbers = f'{counted(images, "image")}, {counted(annotations, "annotation")}'
    del file  # before mmdet reads it again: COCO's takes gigabytes
    opened = check_images(expected, report, sample)
    report.facts.insert(0, f'{numbers}, {counted(opened, "image")} opened')
    check_loading(dataset, report)


def read_checked(
    path: str | Path, report: Report, lists: Sequence[str] = LISTS, *, with_masks: bool
) -> CocoFile | None:
    """The records of an annotation file, after checks of boxes and masks; None without a file."""
    try:
        file = read_coco(path, report.add, lists)
    except UserError as error:
        report.add(faults.FILE_BROKEN, error)
        return None
    report.num_records = len(file.content['annotations'])
    check_boxes(file, report)
    if with_masks:
        check_masks(file, report)
    return file


def check_links(file: CocoFile, report: Report) -> None:
    """Check that annotations refer to an image and a category of the file."""
    for annotation in file.annotations:
        if annotation['id'] == 0:
            report.add(faults.ANNOTATION_ID_ZERO, describe(annotation))
        for key, known, kind in (
            ('image_id', file.image_ids, faults.IMAGE_UNKNOWN),
            ('category_id', file.category_ids, faults.CATEGORY_UNKNOWN),
        ):
            if annotation[key] not in known:
                report.add(kind, f'annotation {annotation["id"]}, {key} {annotation[key]}')
    annotated = {annotation['image_id'] for annotation in file.annotations}
    for number, image in file.images.items():
        if number not in annotated:
            report.add(faults.WITHOUT_OBJECTS, image['file_name'])


def check_categories(file: CocoFile, classes: Sequence[str], report: Report) -> None:
    """Compare the classes of the config with the categories; mmdet numbers them in file order."""
    if isinstance(classes, str) or not isinstance(classes, Sequence):
        raise UserError(f'the classes of a dataset are {classes!r}; give a list of names')
    names = [category['name'] for category in file.categories.values()]
    theirs, ours = set(names), set(classes)
    for name, count in Counter(names).items():
        if count > 1:
            report.add(faults.CATEGORY_DUPLICATE, f'name {name!r}')
    for name in classes:
        if name not in theirs:
            report.add(faults.CLASS_MISSING, repr(name))
    common = [name for name in names if name in ours]
    moved = [pair for pair in zip(common, classes, strict=False) if pair[0] != pair[1]]
    if moved and ours <= theirs:
        report.add(faults.CLASS_ORDER, f'{moved[0][1]!r} where the file has {moved[0][0]!r}')
    for annotation in file.annotations:
        category = file.categories.get(annotation['category_id'])
        if category is not None and category['name'] not in ours:
            report.add(faults.CLASS_IGNORED, f'{category["name"]!r}')


def count_classes(file: CocoFile, classes: Sequence[str], report: Report) -> None:
    """Fill the table: images, annotations and crowds of every class."""
    named = [
        (file.categories[annotation['category_id']]['name'], annotation)
        for annotation in file.annotations
        if annotation['category_id'] in file.categories
    ]
    report.count(
        classes,
        images=Counter(name for name, _ in {(name, a['image_id']) for name, a in named}),
        annotations=Counter(name for name, _ in named),
        crowds=Counter(name for name, a in named if a.get('iscrowd')),
    )


def check_images(expected: Sequence[Expected], report: Report, sample: Sample) -> int:
    """Check that all images exist, open some of them, and return the number of these."""
    present = find_regular(expected, report)
    chosen = sample.choose(present)
    sizes = in_threads(size_or_fault, [path for path, _ in chosen], f'{report.name}: images')
    for (path, recorded), size in zip(chosen, sizes, strict=True):
        if isinstance(size, Unreadable):
            report.add(faults.IMAGE_BROKEN, size)
        elif recorded is not None and size != recorded:
            sizes = f'{path} is {in_words(size)}, not {in_words(recorded)}'
            report.add(faults.SIZE_DIFFERS, sizes)
    return len(chosen)


def find_regular(expected: Sequence[Expected], report: Report) -> list[Expected]:
    """The images that can be opened; the others are reported."""
    if not expected:
        report.add(faults.EMPTY, report.source)
    look = make_lookup()
    present = []
    for path, size in expected:
        found = look(path)
        if found:
            present.append((path, size))
        else:
            report.add(faults.IMAGE_MISSING if found is None else faults.IMAGE_IRREGULAR, path)
    return present


def images_of(file: CocoFile, folder: str | Path) -> list[Expected]:
    return [
        (Path(folder, image['file_name']), (image['height'], image['width']))
        for image in file.images.values()
    ]


def size_or_fault(path: Path) -> tuple[int, int] | Unreadable:
    try:
        return read_size(path)
    except Unreadable as fault:
        return fault


def check_loading(dataset: BaseDataset, report: Report) -> bool:
    """Load the dataset in mmdet or mmseg; an error is a fault unless others explain it."""
    try:
        with quiet():
            dataset.full_init()
    except Exception as error:  # a user's class may raise anything
        if not report.faults:
            report.add(faults.FAILS_TO_LOAD, f'{type(error).__name__}: {error}')
        return False
    report.facts.append(f'{type(dataset).__name__} keeps {counted(len(dataset), "image")}')
    return True


def check_voc(dataset: BaseDataset, report: Report, sample: Sample) -> None:
    """Check the XML files of a dataset in PASCAL VOC's format, and open some images."""
    root = Path(dataset.sub_data_root)
    folders = (root / dataset.ann_subdir, root / dataset.img_subdir)
    expected = voc_images(dataset.ann_file, *folders, dataset.metainfo['classes'], report)
    if expected is None:
        return
    opened = check_images(expected, report, sample)
    report.facts.append(f'{counted(len(expected), "image")}, {opened:,} opened')
    if not {faults.FILE_BROKEN, faults.IMAGE_IRREGULAR} & set(report.counts):  # mmdet would wait
        check_loading(dataset, report)


def voc_images(
    path: str | Path, xmls: Path, images: Path, classes: Sequence[str], report: Report
) -> list[Expected] | None:
    """The images of a list with valid XML files, whose faults are reported; None without a list."""
    try:
        names = read_names(path)
    except UserError as error:
        report.add(faults.FILE_BROKEN, error)
        return None
    sizes = check_files(((name, xmls / f'{name}.xml') for name in names), classes, report)
    return [(images / f'{name}.jpg', size) for name, size in sizes.items()]


def check_other(dataset: BaseDataset, report: Report, sample: Sample) -> None:
    """Check the images of a dataset in another format."""
    report.facts.append('annotations were not checked, since their format is unknown')
    if not check_loading(dataset, report):
        return
    rows: list[dict[str, Any]] = [dataset.get_data_info(i) for i in range(len(dataset))]
    expected: list[Expected] = []
    for row in rows:
        if isinstance(row.get('img_path'), str):
            size = (row['height'], row['width']) if 'height' in row and 'width' in row else None
            expected.append((Path(row['img_path']), size))
    report.num_records = len(expected)
    opened = check_images(expected, report, sample)
    report.facts.append(f'{counted(len(expected), "image")}, {opened:,} opened')
