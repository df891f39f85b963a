"""The commands and functions that hostile inputs are given to, in the folder of a case.

They are found at the top of the package, or imported here and in the judge: nowhere else.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.hostile.judge import Case, Silent
from tests.hostile.world import World

Job = Callable[[Path], Any]
CONVERT, CONVERT_DATASET = 'model_converters.convert_weights', 'dataset_converters.convert_dataset'
SMALL = ('train_cfg.max_epochs=1',)


def as_job(function: Callable[..., Any]) -> Callable[..., Job]:
    """The call of a function, which the process of a case makes."""
    return lambda *arguments, **options: lambda folder: function(*arguments, **options)


@as_job
def command(name: str, *arguments: object) -> None:
    """``mmeffvit NAME ARGUMENTS``."""
    from mmeffvit.cli.main import main

    main([name, *map(str, arguments)])


@as_job
def script(module: str, *arguments: object) -> None:
    """``python tools/MODULE ARGUMENTS``."""
    from mmeffvit.cli.arguments import run_tool

    sys.argv = [module, *map(str, arguments)]
    run_tool(import_module(f'tools.{module}'))


def train(*options: str, config: str = 'detector.py', arguments: tuple[object, ...] = ()) -> Job:
    more = ['--cfg-options', *options] if options else []
    return command('train', config, '--no-check', '--work-dir', 'work', *arguments, *more)


def read_content(path: str | Path) -> Any:
    from mmeffvit.models.checkpoints.read import read_content

    return read_content(path)


@as_job
def read_plain(name: str, is_checkpoint: bool = True) -> None:
    """Read a pickle that was damaged: what comes out are plain values.

    Raises:
        Silent: If it holds something else.
    """
    from mmeffvit.models.checkpoints.safe_globals import read_pickle

    check_plain(read_content(name) if is_checkpoint else read_pickle(name), set())
    print('plain values')


def check_plain(value: Any, seen: set[int]) -> None:
    """Nothing but tensors, numbers, texts, containers, log histories, and names of classes."""
    import numpy as np
    import torch
    from mmengine.logging import HistoryBuffer

    plain = (int, float, complex, str, bytes, bytearray, type(None), torch.dtype, np.generic)
    inner: Iterable[Any] = ()
    is_plain = True
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Mapping):
        inner = (*value, *value.values())
    elif isinstance(value, list | tuple | set | frozenset):
        inner = value
    elif isinstance(value, HistoryBuffer):
        inner = (vars(value).get('_log_history'),)
    elif isinstance(value, np.ndarray):
        is_plain = value.dtype.kind in 'biufc' and value.sum() is not None
    elif isinstance(value, torch.Tensor):
        is_plain = value.nbytes <= max(value.untyped_storage().nbytes(), 2**28)
    else:  # a class or a stand-in that is named, and not called, is a name
        is_plain = isinstance(value, plain) or not hasattr(value, '__dict__') or callable(value)
    if not is_plain:
        raise Silent(f'neither a tensor nor a plain value: {value!r:.200}')
    for item in inner:
        check_plain(item, seen)


@as_job
def open_checkpoint(name: str) -> None:
    from mmeffvit.models.checkpoints import open_checkpoint

    print(len(open_checkpoint(name).weights), 'tensors')


@as_job
def read_as_mmengine(name: str) -> None:
    from mmengine.runner.checkpoint import CheckpointLoader

    print(type(CheckpointLoader.load_checkpoint(name, map_location='cpu')), 'is loaded')


@as_job
def read_predictions(name: str) -> None:
    from mmeffvit.models.checkpoints.safe_globals import read_pickle

    print(type(read_pickle(name)), 'is loaded')


@as_job
def initialize(name: str) -> None:
    """A backbone of ours with ``init_cfg``."""
    from mmengine.registry import MODELS

    init_cfg = dict(type='Pretrained', checkpoint=name)
    MODELS.build(dict(type='mmeffvit.SwiftFormer', arch='xs', init_cfg=init_cfg)).init_weights()
    print('initialized')


@as_job
def predict_exported(name: str, *inputs: Any, **options: Any) -> None:
    """``ExportedPredictor`` with one thread, by default on ``images``."""
    from mmeffvit import ExportedPredictor

    predictor = ExportedPredictor(name, threads=1)
    predictor(*(inputs or ('images',)), **{'out_dir': 'pictures', **options})


@dataclass(frozen=True)
class Door:
    """A way to a reader, and what shows that it has let a good input in.

    Args:
        call: Makes the job that opens a file of a name.
        says: Words that it then prints.
        makes: Files that it then writes.
    """

    call: Callable[[str], Job]
    says: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()


# how a checkpoint is opened: cheap ones, which need no model, and all that lead a user to one
READERS = {
    'open_checkpoint': Door(open_checkpoint, says=('tensors',)),
    'mmengine': Door(read_as_mmengine, says=('is loaded',)),
}
READ_PICKLE = Door(read_predictions, says=('is loaded',))
LOADERS = {
    **READERS,
    'convert': Door(lambda name: script(CONVERT, name, '--dry-run'), says=('kept: 298',)),
    'init_cfg': Door(initialize, says=('initialized',)),
    'test': Door(
        lambda name: command('test', 'detector.py', name, '--work-dir', 'work'), says=('box AP',)
    ),
    'predict': Door(
        lambda name: command(
            'predict', 'detector.py', name, 'images/a.jpg', '--out-dir', 'pictures'
        ),
        makes=('pictures/a.jpg',),
    ),
    'export': Door(
        lambda name: command('export', 'detector.py', name, 'out.onnx'), makes=('out.onnx',)
    ),
    'load_from': Door(lambda name: train(f'load_from={name}', *SMALL), makes=('work/epoch_1.pth',)),
    'resume': Door(lambda name: train(arguments=('--resume', name)), makes=('work/epoch_2.pth',)),
}


def good_checkpoint(how: str) -> str:
    """The file of the world that a door of :data:`LOADERS` takes."""
    return 'backbone.pth' if how in ('convert', 'init_cfg') else 'run/epoch_1.pth'


def controls(
    group: str, doors: Mapping[str, Door], name: str, world: World, *needed: str
) -> Iterator[Case]:
    """A good file of the world, which every door must accept."""
    for how, door in doors.items():
        yield Case(group, how, 'good', door.call(name), needs(world, name, *needed), 'work',
                   door.says, door.makes, is_control=True)  # fmt: skip


def in_turn(*steps: Callable[[Path], Any]) -> Job:
    def run(folder: Path) -> None:
        for step in steps:
            step(folder)

    return run


def needs(world: World, *names: str) -> Job:
    """Copies of files and folders of the world."""

    def prepare(folder: Path) -> None:
        for name in names:
            world.copy(name, folder)

    return prepare


def at(name: str, make: Job) -> Job:
    """The call of ``make`` for a path in the folder."""
    return lambda folder: make(folder / name)


def put(name: str, content: bytes | Callable[[], bytes], *before: Job) -> Job:
    """A file, after what else is put into the folder."""

    def prepare(folder: Path) -> None:
        in_turn(*before)(folder)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content())

    return prepare


def same_tensors(read: Callable[[], Any], expected: Any) -> None:
    """Read, and compare with what was written.

    Raises:
        Silent: If it reads something else.
    """
    import torch

    tensors = read()
    if list(tensors) != list(expected):
        raise Silent(f'other keys: {sorted(set(tensors) ^ set(expected))[:5]}')
    for key, value in expected.items():
        if tensors[key].dtype != value.dtype or not torch.equal(tensors[key], value):
            raise Silent(f'another tensor: {key}')


def in_each(names: Iterable[str], number: int) -> str:
    """One of the names in turn."""
    names = list(names)
    return names[number % len(names)]


def spelled(name: str) -> str:
    """The beginning of a name as messages spell it."""
    return name[:80].encode('unicode_escape').decode()
