"""One-line user errors in place of exceptions of mmengine, mmdet and mmseg."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from traceback import walk_tb
from typing import Any, TypeVar

from mmengine.config import Config
from mmengine.dataset import BaseDataset
from mmengine.evaluator import Evaluator
from mmengine.hooks import Hook
from mmengine.registry import OPTIMIZERS
from mmengine.runner import Runner

from mmeffvit.config.build import explain_error
from mmeffvit.errors import UserError
from mmeffvit.utils.image_formats import kind_of
from mmeffvit.utils.images import IRREGULAR, header_size
from mmeffvit.utils.interrupts import raise_lost
from mmeffvit.utils.schema import is_dict
from mmeffvit.utils.text import first_line, reason, without_formulas

T = TypeVar('T')

LOADING = 'transforms/loading.py'  # of mmcv, mmdet and mmseg
FILES = ('img_path', 'seg_map_path')  # keys of an item
RAISED = f'{UserError.__module__}.{UserError.__qualname__}: '  # before a message in a traceback
KEPT = (UserError, FileNotFoundError)  # their messages are clear


class Started(Hook):
    """Records that the run has started, and ends one whose interruption was lost."""

    def __init__(self) -> None:
        self.value = False

    def before_run(self, runner: Runner) -> None:
        self.value = True

    def before_train_iter(self, *args: object, **kwargs: object) -> None:
        raise_lost()

    before_val_iter = before_test_iter = before_train_iter


@contextmanager
def building(config: Config, started: Started | None = None) -> Iterator[None]:
    """Report any exception while objects are built from a config as a ``UserError``.

    Objects of a runner are built until it has ``started``.
    """
    try:
        yield
    except KEPT:
        raise
    except Exception as error:  # classes in the config may raise anything
        if started is not None and started.value:
            raise
        raise UserError(f'{config.filename}: {explain_error(error, config.to_dict())}') from error


def check_optimizer(config: Config) -> None:
    """Check that the optimizer is registered: mmengine's own error does not name it."""
    optimizer = (config.get('optim_wrapper') or {}).get('optimizer')
    name = optimizer.get('type') if isinstance(optimizer, dict) else None
    if isinstance(name, str) and OPTIMIZERS.get(name) is None:
        scope = config.get('default_scope')
        with building(config):
            raise KeyError(f'{name} is not in the {scope}::optimizer registry')


def run(runner: Runner, job: Callable[[], T], config: Config) -> T:
    """Call ``runner.train`` or ``runner.test``.

    Raises:
        UserError: If an object of the config cannot be built, a data file cannot be read, or a data
            loading process ends.
    """
    started = Started()
    runner.register_hook(started)
    with building(config, started), without_formulas(), loading():
        return job()


@contextmanager
def loading() -> Iterator[None]:
    """Context for loops over data loaders.

    Raises:
        UserError: With the message of one in a data loading process, or if such a process ends.
    """
    try:
        yield
    except UserError as error:
        text, _, message = str(error).strip().rpartition(RAISED)
        if not text.startswith('Caught UserError in DataLoader'):
            raise
        raise UserError(message) from error
    except RuntimeError as error:
        if not str(error).startswith('DataLoader worker (pid'):
            raise
        raise UserError(
            f'a data loading process has ended ({first_line(error)}): if memory is short, set a '
            'smaller num_workers of the data loader, or 0'
        ) from error


def name_unreadable(dataset: Any) -> None:
    """Have the datasets in ``dataset`` name a file that their pipelines cannot use."""
    for each in nested_datasets(dataset):
        if isinstance(each, BaseDataset):
            each.prepare_data = partial(prepare, each)


def nested_datasets(dataset: Any) -> Iterator[Any]:
    """A dataset, and all that it wraps."""
    yield dataset
    for inner in getattr(dataset, 'datasets', None) or [getattr(dataset, 'dataset', None)]:
        if inner is not None:
            yield from nested_datasets(inner)


def prepare(dataset: BaseDataset, index: int) -> Any:
    """An item of a dataset, with errors that name the file, unlike the libraries' errors."""
    info = dataset.get_data_info(index)
    check_files(info)
    try:
        item = type(dataset).prepare_data(dataset, index)
    except KEPT:
        raise
    except Exception as error:  # decoders and transforms raise various exceptions
        frames = [frame.f_code for frame, _ in walk_tb(error.__traceback__)]
        inside = [code.co_name for code in frames if code.co_filename.endswith(LOADING)]
        path = info.get('seg_map_path' if '_load_seg_map' in inside else 'img_path')
        cause = reason(error)
        kind = kind_of(path) if inside and os.path.isfile(path) else None
        if kind and kind not in cause:
            cause += f'; it is {kind}'
        raise UserError(
            f'{path} or its annotation cannot be {"read" if inside else "prepared"} '
            f'({cause}): `mmeffvit check CONFIG --all` finds all such files'
        ) from error
    check_label_map(item, info)
    return item


def check_label_map(item: Any, info: Mapping[str, Any]) -> None:
    """Reject a label map in color, which mmseg packs with a warning."""
    label_map = getattr(item.get('data_samples'), 'gt_sem_seg', None) if is_dict(item) else None
    values = label_map.get('data') if label_map is not None else None
    if values is not None and (values.dim() != 3 or len(values) != 1):
        raise UserError(
            f'{info.get("seg_map_path")} has several channels; a label map has one, with the label '
            'of each pixel: `mmeffvit check CONFIG --all` finds all such files'
        )


def check_files(info: Mapping[str, Any]) -> None:
    """Reject pipes and devices, which would block, large images, and sizes that differ.

    A crop can hide the latter.
    """
    paths = [path for path in map(info.get, FILES) if path and os.path.lexists(path)]
    for path in paths:
        if not os.path.isfile(path):
            raise UserError(f'{path} cannot be read: {IRREGULAR}')
    sizes = list(map(header_size, paths))
    if None not in sizes and len(set(sizes)) > 1:
        raise UserError(
            f'{paths[0]} and its label map {paths[1]} differ in size: {sizes[0]} and {sizes[1]}, '
            'height and width in pixels'
        )


def prepare_metrics(evaluator: Evaluator, work_dir: str) -> None:
    """Add missing ``info`` and ``iscrowd`` to COCO annotations: pycocotools requires them.

    Processes exchange results in the work dir: mmengine would do so in the current one.
    """
    for metric in evaluator.metrics:
        if metric.collect_device == 'cpu' and metric.collect_dir is None:
            metric.collect_dir = str(Path(work_dir, '.collected'))
        truth = getattr(metric, '_coco_api', None)
        if isinstance(getattr(truth, 'dataset', None), dict):
            truth.dataset.setdefault('info', {})
            for annotation in truth.dataset.get('annotations', ()):
                annotation['iscrowd'] = annotation.get('iscrowd') or 0


def restrict_annotations(evaluator: Evaluator, dataset: Any) -> None:
    """Restrict COCO's metrics to the images in ``dataset``: others would count as missed."""
    ids = [dataset.get_data_info(i).get('img_id') for i in range(len(dataset))]
    for metric in evaluator.metrics:
        if getattr(metric, '_coco_api', None) is not None:
            metric.img_ids = ids
