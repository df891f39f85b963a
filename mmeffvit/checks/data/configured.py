"""The datasets of a config, built by mmdet or mmseg without reading them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.dataset import BaseDataset

from mmeffvit.checks.run import as_list, check_paths
from mmeffvit.config.datasets import build_unread, datasets_of, mentions
from mmeffvit.data.faults import OTHER_FILE, PATH_MISSING, Report
from mmeffvit.errors import UserError


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

    @property
    def with_masks(self) -> bool:
        """Whether its pipeline reads instance masks."""
        return mentions(self.settings.get('pipeline'), 'with_mask')


def configured_datasets(config: Config, splits: tuple[str, ...]) -> list[ConfiguredDataset]:
    """Every dataset of the splits, without wrappers; one that two splits share is listed once."""
    found: list[ConfiguredDataset] = []
    for split in splits:
        datasets = datasets_of(config, split)
        evaluators = tuple(annotation_files(config.get(f'{split}_evaluator')))
        for number, settings in enumerate(datasets, 1):
            name = split if len(datasets) == 1 else f'{split} {number} of {len(datasets)}'
            same = [c for c in found if c.settings == settings and c.evaluators == evaluators]
            if same:
                same[0].name += f', {name}'
            else:
                found.append(ConfiguredDataset(name, settings, evaluators))
    return found


def annotation_files(evaluator: Any) -> Iterator[str]:
    for metric in as_list(evaluator):
        path = metric.get('ann_file')
        if path:
            yield path


def build(configured: ConfiguredDataset, report: Report) -> BaseDataset | None:
    """Build the dataset, which joins its paths, without reading it; None if a path is missing.

    Raises:
        UserError: If its type is not registered, or an argument is invalid.
    """
    split = configured.name.split()[0].rstrip(',')
    loaders = Config({f'{split}_dataloader': dict(dataset=dict(configured.settings))})
    try:
        check_paths(loaders, (split,))
    except UserError as error:
        report.add(PATH_MISSING, error)
        return None
    try:
        dataset = build_unread(configured.settings)
    except (AssertionError, KeyError, TypeError, ValueError) as error:
        raise UserError(f'{configured.name} data: {error.args[0] if error.args else error}') from (
            error
        )
    check_evaluators(configured, dataset, report)
    return dataset


def check_evaluators(configured: ConfiguredDataset, dataset: BaseDataset, report: Report) -> None:
    """Check that a metric with its own annotation file uses the one of the dataset."""
    for path in configured.evaluators:
        if not Path(path).is_file():
            report.add(PATH_MISSING, f'annotation file {path!r} of the evaluator')
        elif Path(path).resolve() != Path(dataset.ann_file).resolve():
            report.add(OTHER_FILE, f'{path!r}, and the dataset {dataset.ann_file!r}')
