"""The commands and functions that hostile inputs are given to, in the folder of a case."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.hostile.judge import Silent
from tests.hostile.world import World

SMALL = ('train_cfg.max_epochs=1',)


def command(name: str, *arguments: object) -> Callable[[Path], None]:
    """``mmeffvit NAME ARGUMENTS``."""

    def job(folder: Path) -> None:
        from mmeffvit.cli.main import main

        main([name, *map(str, arguments)])

    return job


def train(*options: str, config: str = 'detector.py', arguments: tuple[object, ...] = ()) -> Any:
    more = ['--cfg-options', *options] if options else []
    return command('train', config, '--no-check', '--work-dir', 'work', *arguments, *more)


def open_as_ours(name: str) -> Callable[[Path], None]:
    def job(folder: Path) -> None:
        from mmeffvit.models.checkpoints import open_checkpoint

        open_checkpoint(name)

    return job


def read_as_mmengine(name: str) -> Callable[[Path], None]:
    def job(folder: Path) -> None:
        from mmengine.runner.checkpoint import CheckpointLoader

        CheckpointLoader.load_checkpoint(name, map_location='cpu')

    return job


def read_predictions(name: str) -> Callable[[Path], None]:
    def job(folder: Path) -> None:
        from mmeffvit.models.checkpoints.safe_globals import read_pickle

        read_pickle(name)

    return job


def initialize(name: str) -> Callable[[Path], None]:
    """A backbone of ours with ``init_cfg``."""

    def job(folder: Path) -> None:
        from mmeffvit.registry import MODELS

        init_cfg = dict(type='Pretrained', checkpoint=name)
        MODELS.build(dict(type='mmeffvit.SwiftFormer', arch='xs', init_cfg=init_cfg)).init_weights()

    return job


# how a checkpoint is opened: cheap ones, which need no model, and all that lead a user to one
READERS: dict[str, Callable[[str], Callable[[Path], Any]]] = {
    'open_checkpoint': open_as_ours,
    'mmengine': read_as_mmengine,
}
LOADERS: dict[str, Callable[[str], Callable[[Path], Any]]] = {
    **READERS,
    'convert': lambda name: command('convert', name, '--dry-run'),
    'init_cfg': initialize,
    'test': lambda name: command('test', 'detector.py', name, '--work-dir', 'work'),
    'predict': lambda name: command(
        'predict', 'detector.py', name, 'images/a.jpg', '--out-dir', 'pictures'
    ),
    'export': lambda name: command('export', 'detector.py', name, 'out.onnx'),
    'load_from': lambda name: train(f'load_from={name}', *SMALL),
    'resume': lambda name: train(arguments=('--resume', name)),
}


def needs(world: World, *names: str) -> Callable[[Path], None]:
    """Copies of files and folders of the world."""

    def prepare(folder: Path) -> None:
        for name in names:
            world.copy(name, folder)

    return prepare


def put(name: str, content: bytes | Callable[[], bytes], *inside: Any) -> Callable[[Path], None]:
    """Prepare a folder: a file, and what else ``inside`` puts there."""

    def prepare(folder: Path) -> None:
        for each in inside:
            each(folder)
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
