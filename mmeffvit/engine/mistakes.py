"""Exceptions of mmengine, mmdet and mmseg that a user can mend, as user errors in one line."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from traceback import walk_tb
from typing import Any, TypeVar

import mmengine.registry
from mmengine.config import Config
from mmengine.dataset import BaseDataset
from mmengine.evaluator import Evaluator
from mmengine.hooks import Hook
from mmengine.registry import Registry
from mmengine.runner import Runner

from mmeffvit.errors import UserError

T = TypeVar('T')

UNREGISTERED = re.compile(r'(\S+) is not in the (\S+?)::(.+?) registry')
LOADING = ('transforms/loading.py', 'transforms\\loading.py')  # of mmcv, mmdet and mmseg
KEPT = (UserError, FileNotFoundError)  # say themselves what is wrong


@contextmanager
def building(config: Config) -> Iterator[None]:
    """While objects are built from a config, what goes wrong is wrong in the config.

    Raises:
        UserError: In place of any other exception.
    """
    try:
        yield
    except KEPT:
        raise
    except Exception as error:  # whatever the classes of the config raise
        raise UserError(f'{config.filename}: {reason(error)}') from error


def reason(error: Exception) -> str:
    """The first line of an error's message, and names like one that is not registered."""
    text = str(error.args[0] if error.args else error).strip()
    line = text.splitlines()[0] if text else ''
    if found := UNREGISTERED.search(line):
        name, scope, kind = found.groups()
        close = get_close_matches(name.rpartition('.')[2], registered(kind), 5, 0.5)
        choices = f'did you mean {", ".join(close)}?' if close else 'no name is like it.'
        return (
            f'{scope} knows no {kind} of type {name!r}; {choices} Correct it, or import the module '
            'that registers it by custom_imports'
        )
    plain = isinstance(error, KeyError | TypeError | ValueError) and ' ' in line
    return line if plain else f'{type(error).__name__}: {line}'


def registered(kind: str) -> list[str]:
    """The names in all registries of a kind, those of the hosts included."""
    roots = [r for r in vars(mmengine.registry).values() if isinstance(r, Registry)]
    roots = [root for root in roots if root.name == kind]
    return sorted({
        name for root in roots for registry in (root, *root.children.values())
        for name in registry.module_dict
    })  # fmt: skip


def check_optimizer(config: Config) -> None:
    """Look for the class of the optimizer: mmengine says of a missing one only that it is None.

    Raises:
        UserError: If there is none of that name.
    """
    optimizer = (config.get('optim_wrapper') or {}).get('optimizer')
    name = optimizer.get('type') if isinstance(optimizer, dict) else None
    if isinstance(name, str) and mmengine.registry.OPTIMIZERS.get(name) is None:
        scope = config.get('default_scope')
        with building(config):
            raise KeyError(f'{name} is not in the {scope}::optimizer registry')


class Started(Hook):
    """Knows whether a run is built."""

    def __init__(self) -> None:
        self.is_so = False

    def before_run(self, runner: Runner) -> None:
        self.is_so = True


def run(runner: Runner, job: Callable[[], T], config: Config) -> T:
    """Do ``runner.train`` or ``runner.test``.

    Raises:
        UserError: If something of the config cannot be built, or a file of the data not be read.
    """
    started = Started()
    runner.register_hook(started)
    try:
        return job()
    except KEPT as error:
        lines = str(error).strip().splitlines()
        if isinstance(error, UserError) and lines[0].startswith('Caught UserError in DataLoader'):
            raise UserError(lines[-1].partition(': ')[2]) from error
        raise
    except Exception as error:
        if started.is_so:
            raise
        raise UserError(f'{config.filename}: {reason(error)}') from error


def name_unreadable(dataset: Any) -> None:
    """Have the data sets in ``dataset`` name a file that their pipelines cannot read."""
    for inner in getattr(dataset, 'datasets', None) or [getattr(dataset, 'dataset', None)]:
        if inner is not None:
            name_unreadable(inner)
    if isinstance(dataset, BaseDataset):
        dataset.prepare_data = partial(prepare, dataset)


def prepare(dataset: BaseDataset, index: int) -> Any:
    """An item of a data set.

    Raises:
        UserError: If a file of it cannot be read: the libraries' errors do not name it.
    """
    try:
        return type(dataset).prepare_data(dataset, index)
    except KEPT:
        raise
    except Exception as error:
        frames = [frame.f_code for frame, _ in walk_tb(error.__traceback__)]
        inside = [code.co_name for code in frames if code.co_filename.endswith(LOADING)]
        if not inside:
            raise
        key = 'seg_map_path' if '_load_seg_map' in inside else 'img_path'
        path = dataset.get_data_info(index).get(key)
        raise UserError(
            f'{path} or its annotation cannot be read ({reason(error)}): '
            '`tools/check_dataset.py --all` finds all such files'
        ) from error


def complete_annotations(evaluator: Evaluator) -> None:
    """Give the annotations of COCO metrics what pycocotools insists on and many tools do not write.

    It copies ``info``, and reads ``iscrowd`` of every annotation.
    """
    for metric in evaluator.metrics:
        truth = getattr(metric, '_coco_api', None)
        if isinstance(getattr(truth, 'dataset', None), dict):
            truth.dataset.setdefault('info', {})
            for annotation in truth.dataset.get('annotations', ()):
                annotation['iscrowd'] = annotation.get('iscrowd') or 0
