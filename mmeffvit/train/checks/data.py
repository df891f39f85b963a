"""A config's datasets, read as a user's folder is and checked by the same rules."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.dataset import BaseDataset

from mmeffvit.config.build import isolated
from mmeffvit.config.datasets import (
    SPLITS,
    build_unread,
    datasets_of,
    drop_reduction,
    mentions,
    name_of,
)
from mmeffvit.config.load import DENSE
from mmeffvit.config.values import dicts_in
from mmeffvit.data import faults
from mmeffvit.data.check import MANY, check
from mmeffvit.data.faults import Findings
from mmeffvit.data.files import ImageFinder, Sample, read_list
from mmeffvit.data.formats import coco, voc
from mmeffvit.data.formats.builder import Builder
from mmeffvit.data.formats.coco_file import LISTS, CocoFile, check_names
from mmeffvit.data.formats.label_maps import IGNORED
from mmeffvit.data.predictions import is_dropped
from mmeffvit.data.prepare import (
    LISTING,
    PrepareOptions,
    check_trainable,
    judge,
    without_collection,
)
from mmeffvit.data.records import DataSet, Object, Picture
from mmeffvit.data.tree import Tree
from mmeffvit.data.write import write_coco, write_label_maps
from mmeffvit.errors import UserError
from mmeffvit.utils.interrupts import is_first_process
from mmeffvit.utils.messages import logger
from mmeffvit.utils.quiet import quiet
from mmeffvit.utils.text import listed

from .run import check_dataset_paths, check_paths, paths_of

SOME, CLOSED = Sample(), Sample(0)  # images to open: 50 of every dataset, or none
OF_VOC = ('img_subdir', 'ann_subdir')  # settings that other datasets do not have
MISREAD = (faults.FILLED, faults.NAME_SPELLED, faults.MAP_GRAY)  # notes on what mmdet cannot read


@dataclass
class ConfiguredDataset:
    """One dataset of a config."""

    name: str  # the splits that use it, with a number if there are several
    settings: dict[str, Any]
    metrics: list[dict[str, Any]]
    split: str  # the first of these splits

    @property
    def measures_masks(self) -> bool:
        return any('segm' in (metric.get('metric') or ()) for metric in self.metrics)

    @property
    def needs_masks(self) -> bool:
        return self.measures_masks or mentions(self.settings.get('pipeline'), 'with_mask')


def configured_datasets(config: Config, splits: Sequence[str]) -> list[ConfiguredDataset]:
    """Every dataset of the splits, without wrappers; one that two splits share is listed once."""
    found: list[ConfiguredDataset] = []
    for split in splits:
        datasets = datasets_of(config, split)
        metrics = [metric for _, metric in dicts_in(config.get(f'{split}_evaluator'))]
        for number, settings in enumerate(datasets, 1):
            name = split if len(datasets) == 1 else f'{split} {number} of {len(datasets)}'
            same = [c for c in found if c.settings == settings and c.metrics == metrics]
            if same:
                same[0].name += f', {name}'
            else:
                found.append(ConfiguredDataset(name, settings, metrics, split))
    return found


@without_collection()
def check_dataset(
    config: Config, splits: Sequence[str] = SPLITS, sample: Sample = SOME
) -> list[DataSet]:
    """Read all annotations of a config's datasets and open a sample of their images.

    Paths, classes and ``reduce_zero_label`` are those that mmdet or mmseg use; one of these must be
    imported. The config is not changed.

    Returns:
        Every dataset with its findings, in the order of the splits.

    Raises:
        UserError: If there is no dataset, or one cannot be built.
    """
    configured = configured_datasets(config, splits)
    if not configured:
        raise UserError(f'{config.filename} has no dataset for {", ".join(splits)}')
    found = []
    with isolated(config.default_scope):
        for item in configured:
            data, _ = read_dataset(item)
            check(data, needs_masks=item.needs_masks, sample=sample)
            found.append(data)
    return found


@without_collection()
def check_data(config: Config, splits: Sequence[str]) -> None:
    """Check that every path of the data loaders exists, and read the annotation files.

    Raises:
        UserError: If a path is missing, or a file has faults that would stop or crash the run.
    """
    check_paths(config, splits)
    if not is_first_process():  # the first process reads for all
        return
    for item in local_datasets(config, splits):
        with isolated(config.default_scope):
            data, _ = read_dataset(item)
        check(data, needs_masks=item.needs_masks, sample=CLOSED)
        data.findings.stop_run((faults.FILLED, *[faults.MASK_SHORT] * item.measures_masks))


@without_collection()
def repair_data(config: Config, folder: Path, *, strict: bool = False) -> None:
    """Check the data that a config is trained on, and leave out what is broken.

    A user's folder has the same grades: an error stops, as do warnings if ``strict``; images with
    a warning are left out. Where mmdet or mmseg would fail or read something else, the config gets
    what was read, written to ``folder``; each of several processes does so.

    Raises:
        UserError: If there are errors.
    """
    is_first = is_first_process()
    logger.disabled = not is_first  # one of several processes is enough
    try:
        for item in local_datasets(config, ('train', 'val')):
            path = dict(paths_of(item.settings)).get('annotation file')
            if not (path and path.with_name(LISTING).is_file()):
                repair(item, config.default_scope, folder / item.name.replace(' ', '_'), strict)
    except UserError as error:
        if is_first:
            raise
        raise UserError('stopped: see the first process for the errors of the data') from error
    finally:
        logger.disabled = False


def repair(
    item: ConfiguredDataset, scope: str, folder: Path, strict: bool, sample: Sample | None = None
) -> None:
    """Check one dataset; see :func:`repair_data`."""
    with isolated(scope):
        data, dataset = read_dataset(item)
    options = PrepareOptions(needs_masks=item.needs_masks, strict=strict)
    left_out = judge(data, folder, options, sample or Sample(MANY))
    if ' of ' not in item.name:  # one of several may have images of background only
        check_trainable(data)
    if not (left_out or {*data.findings.counts} & {*MISREAD}):
        return
    unopened = [p for part in data.splits.values() for p in part if not p.digest]
    if sample is None and any(p.label_map or p.size is None for p in unopened):  # all are written
        repair(item, scope, folder, strict, Sample(None))
    else:
        replace_data(item, dataset, data, folder)


def local_datasets(config: Config, splits: Sequence[str]) -> list[ConfiguredDataset]:
    """The datasets of dense prediction that are on this machine."""
    if config.get('default_scope') not in DENSE:
        return []
    return [c for c in configured_datasets(config, splits) if any(paths_of(c.settings))]


def replace_data(
    item: ConfiguredDataset, dataset: BaseDataset, data: DataSet, folder: Path
) -> None:
    """Let the config read what was written of a dataset."""
    is_voc = reads_as(type(dataset), 'XMLDataset')
    for each in data.objects() if is_voc else ():  # from 1, as mmdet reads them
        left, top, width, height = each.box
        each.box = (left - 1, top - 1, width, height)
    write = write_label_maps if data.has_label_maps else write_coco
    written = write(data, folder)[item.split]
    settings, old, new = item.settings, dataset.ann_file, str(written.annotations)
    prefix = dict(img=str(written.images))
    if data.has_label_maps:
        prefix = dict(img_path=str(written.images), seg_map_path=str(folder))
        settings['type'] = 'mmeffvit.PairedSegDataset'
        drop_reduction(settings)
    if is_voc:
        settings['type'] = 'mmdet.CocoDataset'
        for key in OF_VOC:
            settings.pop(key, None)
    meta = {**dataset.metainfo, 'classes': tuple(data.classes)}
    settings.update(data_root='', ann_file=new, data_prefix=prefix, metainfo=meta)
    for metric in item.metrics:
        if old and is_same(metric.get('ann_file'), old):
            metric['ann_file'] = new


def is_same(path: str | None, other: str) -> bool:
    return bool(path) and Path(path).resolve() == Path(other).resolve()


def read_dataset(item: ConfiguredDataset) -> tuple[DataSet, BaseDataset | None]:
    """A config's dataset, and the unread one of mmdet or mmseg; without it if a path is missing."""
    kind = name_of(item.settings)
    report = Findings(name=item.name, source=kind)
    data = DataSet(kind, Path(), [], {item.split: []}, report)
    try:
        check_dataset_paths(item.settings, item.name)
    except UserError as error:
        report.add(faults.PATH_MISSING, error)
        return data, None
    dataset = build_unread(item.settings)
    folders = list(filter(None, dataset.data_prefix.values()))
    report.source = f'{kind}, {dataset.ann_file or " ".join(folders)}'
    data.root, data.classes = Path(*folders[:1]), class_names(dataset)
    for path in filter(None, (metric.get('ann_file') for metric in item.metrics)):
        if not Path(path).is_file():
            report.add(faults.PATH_MISSING, f'annotation file {path!r} of the evaluator')
        elif not is_same(path, dataset.ann_file):
            report.add(faults.OTHER_FILE, f'{path!r}, and the dataset {dataset.ann_file!r}')
    read = next((read for name, read in READERS.items() if reads_as(type(dataset), name)), of_rows)
    try:
        data.splits[item.split] = list(read(dataset, data, item))
    except UserError as error:
        report.add(faults.FILE_BROKEN, error)
    if not data.splits[item.split] and not report.faults:
        report.add(faults.EMPTY, report.source)
    return data, dataset


def class_names(dataset: BaseDataset) -> list[str]:
    classes = dataset.metainfo.get('classes') or ()
    if isinstance(classes, str) or not isinstance(classes, Sequence):
        raise UserError(f'the classes of a dataset are {classes!r}; give a list of names')
    return list(classes)


def reads_as(cls: Any, name: str) -> bool:
    """Whether a dataset class reads annotations with the method of this class of mmdet."""
    try:
        from mmdet import datasets
    except ImportError:
        return False
    known = getattr(datasets, name, None)
    parts = ('load_data_list', 'parse_data_info', 'COCOAPI')  # others for panoptic annotations
    return known is not None and all(
        getattr(cls, part, None) is getattr(known, part, None) for part in parts
    )


def irregular_fault(path: Path, missing: faults.Fault) -> faults.Fault:
    """The fault of what is no regular file: missing, or something that would block a reader."""
    return faults.IMAGE_IRREGULAR if os.path.exists(path) else missing


class PlacedFinder(ImageFinder):
    """Finds images where mmdet reads them; others that are meant are named differently."""

    def find(self, name: str, folders: Iterable[Path], split: str | None = None) -> list[Path]:
        path = self.root / name
        if os.path.isfile(path):
            return [path]
        noted = self.findings.counts[faults.NAME_SPELLED]
        found = [] if os.path.exists(path) or self.root == Path() else super().find(name, ())
        if len(found) == 1 and self.findings.counts[faults.NAME_SPELLED] == noted:
            self.findings.add(faults.NAME_SPELLED, f'{name}: {found[0]}')
        return found

    def fault(self, name: str, found: list[Path]) -> faults.Fault:
        missing = super().fault(name, found)
        return missing if found else irregular_fault(self.root / name, missing)


def of_coco(dataset: BaseDataset, data: DataSet, item: ConfiguredDataset) -> Iterator[Picture]:
    """The images of a COCO file, with objects of the config's classes."""
    path, findings = Path(dataset.ann_file), data.findings
    finder = PlacedFinder(Path(dataset.data_prefix.get('img') or ''), findings)
    lists = LISTS if item.split != 'test' else ('images', 'categories')
    file = coco.read_split(path, finder, findings, lists, with_masks=item.needs_masks)
    data.classes = data.classes or [each['name'] for each in file.categories.values()]
    check_categories(file, data.classes, findings)
    for row in file.annotations:
        if row['id'] == 0:
            findings.add(faults.ANNOTATION_ID_ZERO, f'{path}, of image {row["image_id"]}')
    labels = {name: label for label, name in enumerate(data.classes)}
    ours = {key: labels[c['name']] for key, c in file.categories.items() if c['name'] in labels}
    others = file.categories.keys() - ours.keys()
    rows = [row for row in file.content['annotations'] if not is_dropped(row, others, 0)]
    file.annotations = [row for row in file.annotations if row['category_id'] not in others]
    file.content = {**file.content, 'annotations': rows}
    return coco.pictures_of(file, path, None, ours, finder, findings)


def check_categories(file: CocoFile, classes: Sequence[str], findings: Findings) -> None:
    """Compare the classes of the config with the categories; mmdet numbers them in file order."""
    names = [category['name'] for category in file.categories.values()]
    theirs, ours = set(names), set(classes)
    check_names(file, findings)
    for name in dict.fromkeys(names):
        if name not in ours:
            findings.add(faults.CLASS_IGNORED, repr(name))
    for name in classes:
        if name not in theirs:
            findings.add(faults.CLASS_MISSING, f'{name!r}, and the file has {listed(names)}')
    common = [name for name in names if name in ours]
    moved = [pair for pair in zip(common, classes, strict=False) if pair[0] != pair[1]]
    if moved and ours <= theirs:
        findings.add(faults.CLASS_ORDER, f'{moved[0][1]!r} where the file has {moved[0][0]!r}')


def of_voc(dataset: BaseDataset, data: DataSet, item: ConfiguredDataset) -> Iterator[Picture]:
    """The listed images with XML files, with objects of the config's classes."""
    root = Path(dataset.sub_data_root)
    finder = PlacedFinder(root / dataset.img_subdir, data.findings)
    names = list(read_list(Path(dataset.ann_file), data.findings))
    builder = Builder(Tree(root), data.findings)
    for name, count in Counter(names).items():
        path = root / dataset.ann_subdir / f'{name}.xml'
        parsed = voc.parse(path, data.findings, for_mmdet=True)
        found = finder.find(f'{name}.jpg', ())
        if count > 1:
            data.findings.add(faults.IMAGE_LISTED_TWICE, name)
        elif len(found) != 1:
            data.findings.add(finder.fault(name, found), finder.root / f'{name}.jpg')
        elif parsed is not None:
            xml, lines, size = parsed
            picture = Picture(found[0], recorded=size)
            builder.numbers = {each: label for label, each in enumerate(data.classes)}
            builder.each(picture, xml.findall('object'), f'{path}, line', voc.read_object, lines)
            for other in [*builder.numbers][len(data.classes) :]:
                data.findings.add(faults.CLASS_IGNORED, f'{other!r} in {path}')
            picture.objects = [each for each in picture.objects if each.label < len(data.classes)]
            yield picture


READERS = dict(CocoDataset=of_coco, XMLDataset=of_voc)


def of_rows(dataset: BaseDataset, data: DataSet, item: ConfiguredDataset) -> Iterator[Picture]:
    """The images of any other dataset, as mmdet or mmseg loads it."""
    try:
        with quiet():
            dataset.full_init()
            rows = [dataset.get_data_info(i) for i in range(len(dataset))]
    except Exception as error:  # a user's class may raise anything
        data.findings.add(faults.FAILS_TO_LOAD, f'{type(error).__name__}: {error}')
        return
    if hasattr(dataset, 'reduce_zero_label'):
        data.colors = labels_of(dataset)
    seen: set[Path] = set()
    for row in rows:
        if not isinstance(row.get('img_path'), str):
            continue
        path, label_map = Path(row['img_path']), row.get('seg_map_path')
        label_map = Path(label_map) if data.has_label_maps and label_map else None
        if path in seen:
            data.findings.add(faults.IMAGE_LISTED_TWICE, path)
        elif not os.path.isfile(path):
            data.findings.add(irregular_fault(path, faults.IMAGE_MISSING), path)
        elif label_map and not os.path.isfile(label_map):
            data.findings.add(irregular_fault(label_map, faults.MAP_MISSING), label_map)
        else:
            size = (row['height'], row['width']) if 'height' in row and 'width' in row else None
            yield Picture(path, objects_in(row), size, label_map)
        seen.add(path)
    if data.has_label_maps and not Path(dataset.ann_file or '').is_file():
        folder = Path(dataset.data_prefix.get('seg_map_path') or '')
        used = {Path(row['seg_map_path']) for row in rows if row.get('seg_map_path')}
        for path in sorted(folder.rglob(f'*{dataset.seg_map_suffix}')) if used else ():
            if path not in used:
                data.findings.add(faults.IMAGE_MISSING, f'the image of {path}')


def objects_in(row: Mapping[str, Any]) -> list[Object]:
    """The objects of an image that mmdet has loaded."""
    found = []
    for number, each in enumerate(row.get('instances') or (), 1):
        left, top, right, bottom = each['bbox']
        where = f'{row["img_path"]}, object {number}'
        box = (left, top, right - left, bottom - top)
        crowd = bool(each.get('ignore_flag'))
        found.append(Object(each['bbox_label'], box, where, each.get('mask'), is_crowd=crowd))
    return found


def labels_of(dataset: BaseDataset) -> dict[int, int]:
    """The class of every value in a label map that has one, as mmseg reads it."""
    num_classes, ignored = len(class_names(dataset)), dataset.ignore_index
    if not num_classes:
        raise UserError('a dataset of label maps has no classes: name them in its metainfo')
    table = {}
    for value in range(256):
        label = value
        if dataset.reduce_zero_label:
            label = IGNORED if value in (0, IGNORED) else value - 1
        label = (dataset.label_map or {}).get(label, label)
        if label in (ignored, IGNORED) or 0 <= label < num_classes:
            table[value] = label
    return table
