"""Find faults of a config's data before a run fails on them or trains on them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.dataset import BaseDataset

from mmeffvit.config.build import isolated
from mmeffvit.config.datasets import build_unread, datasets_of, mentions
from mmeffvit.config.values import dicts_in
from mmeffvit.data.faults import OTHER_FILE, PATH_MISSING, Report
from mmeffvit.data.files import Sample
from mmeffvit.errors import UserError

from .detection import check_coco, check_other, check_voc, reads_as
from .run import check_dataset_paths
from .segmentation import check_segmentation, is_segmentation

SPLITS = ('train', 'val', 'test')


@dataclass
class ConfiguredDataset:
    """One dataset of a config.

    Args:
        name: The splits that use it, with a number if there are several.
        settings: Its config.
        evaluators: Annotation files of its metrics.
    """

    name: str
    settings: Mapping[str, Any]
    evaluators: tuple[str, ...]


def check_dataset(
    config: Config, splits: tuple[str, ...] = SPLITS, sample: Sample | None = None
) -> list[Report]:
    """Read all annotations of a config's datasets and open a sample of their images.

    Datasets are built by mmdet or mmseg from the config, so paths, classes and
    ``reduce_zero_label`` are those of a run. COCO annotation files are read directly, since mmdet
    silently ignores what it cannot use.

    Args:
        config: A config of mmdet or mmseg, which must be imported; it is not changed.
        splits: The splits to check, out of 'train', 'val', 'test'.
        sample: Which files to open; None opens 50 of every dataset.

    Returns:
        One report for every dataset, in the order of the splits.

    Raises:
        UserError: If there is no dataset, or one cannot be built.
    """
    configured = configured_datasets(config, splits)
    if not configured:
        raise UserError(f'{config.filename} has no dataset for {", ".join(splits)}')
    with isolated(config.default_scope):
        return [check_one(item, sample or Sample()) for item in configured]


def configured_datasets(config: Config, splits: tuple[str, ...]) -> list[ConfiguredDataset]:
    """Every dataset of the splits, without wrappers; one that two splits share is listed once."""
    found: list[ConfiguredDataset] = []
    for split in splits:
        datasets = datasets_of(config, split)
        metrics = dicts_in(config.get(f'{split}_evaluator'))
        evaluators = tuple(m['ann_file'] for _, m in metrics if m.get('ann_file'))
        for number, settings in enumerate(datasets, 1):
            name = split if len(datasets) == 1 else f'{split} {number} of {len(datasets)}'
            same = [c for c in found if c.settings == settings and c.evaluators == evaluators]
            if same:
                same[0].name += f', {name}'
            else:
                found.append(ConfiguredDataset(name, settings, evaluators))
    return found


def check_one(configured: ConfiguredDataset, sample: Sample) -> Report:
    """Check one dataset according to its format."""
    report = Report(configured.name, str(configured.settings.get('type')))
    dataset = build(configured, report)
    if dataset is None:
        return report
    folders = ' '.join(filter(None, dataset.data_prefix.values()))
    report.source += f', {dataset.ann_file or folders}'
    if reads_as(type(dataset), 'CocoDataset'):
        with_masks = mentions(configured.settings.get('pipeline'), 'with_mask')
        check_coco(dataset, report, sample, with_masks=with_masks)
    elif reads_as(type(dataset), 'XMLDataset'):
        check_voc(dataset, report, sample)
    elif is_segmentation(dataset):
        check_segmentation(dataset, report, sample)
    else:
        check_other(dataset, report, sample)
    return report


def build(configured: ConfiguredDataset, report: Report) -> BaseDataset | None:
    """Build the dataset, which joins its paths, without reading it; None if a path is missing."""
    try:
        check_dataset_paths(configured.settings, configured.name)
    except UserError as error:
        report.add(PATH_MISSING, error)
        return None
    dataset = build_unread(configured.settings)
    check_evaluators(configured, dataset, report)
    return dataset


def check_evaluators(configured: ConfiguredDataset, dataset: BaseDataset, report: Report) -> None:
    """Check that a metric with its own annotation file uses the one of the dataset."""
    for path in configured.evaluators:
        if not Path(path).is_file():
            report.add(PATH_MISSING, f'annotation file {path!r} of the evaluator')
        elif Path(path).resolve() != Path(dataset.ann_file).resolve():
            report.add(OTHER_FILE, f'{path!r}, and the dataset {dataset.ann_file!r}')
