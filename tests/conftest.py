"""Shared fixtures: small data, timm for parity tests, and the tools as a user runs them."""

import contextlib
import gc
import io
import logging
import os
import random
import re
import runpy
import signal
import subprocess
import sys
import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from unittest import mock

import numpy as np
import pytest
import torch
from mmengine.logging import MMLogger
from mmengine.registry import DefaultScope
from torch.utils.data import _utils as loading
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter
from yapf.yapflib.yapf_api import FormatCode

from mmeffvit.cli.output import shown
from mmeffvit.data.shapes import ShapesSpec, generate, generate_ade20k
from mmeffvit.errors import UserError
from mmeffvit.utils.machine import avoid_trapping_amx
from mmeffvit.utils.optional import require

# under nohup and in the background they would be ignored in all processes of the suite
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / 'shared' / 'data'

avoid_trapping_amx()
torch.set_num_threads(int(os.environ.get('OMP_NUM_THREADS', 2)))
# 5 s otherwise, which the garbage collection of a dataset waits for every worker of an ended run
loading.MP_STATUS_CHECK_INTERVAL = 0.2
gc.set_threshold(20_000)  # 700 otherwise: exporters allocate much, and lose a tenth of their time


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        '--all-variants',
        action='store_true',
        help='test all variants and configs (default: one of each family and head)',
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out variants and tests without their GPU, and run the longest tests first.

    A process would be idle at the end.
    """
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker('gpu'):
                item.add_marker(pytest.mark.skip(f'torch {torch.__version__} finds no GPU'))
    if not config.getoption('--all-variants'):
        left_out = [item for item in items if item.get_closest_marker('variant')]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker('variant')]
    items.sort(key=lambda item: item.get_closest_marker('slow') is None)


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(0)
    np.random.seed(0)  # used by the augmentations of mmdet and mmseg
    random.seed(0)


@pytest.fixture(scope='module', autouse=True)
def _frozen_imports() -> None:
    """Exclude imported objects from garbage collection, which every dataset of mmengine runs."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope='session', autouse=True)
def _formatted_once() -> Iterator[None]:
    """Format each text of a config once: a run does so five times, for half a second each."""

    @cache
    def formatted(text: str, style: tuple[tuple[str, object], ...]) -> tuple[str, bool]:
        return FormatCode(text, style_config=dict(style))

    def format_code(text: str, style_config: dict[str, object]) -> tuple[str, bool]:
        return formatted(text, tuple(style_config.items()))

    with mock.patch('mmengine.config.config.FormatCode', format_code):
        yield


@pytest.fixture(scope='session')
def timm() -> ModuleType:
    return pytest.importorskip('timm')


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """The messages of mmengine's current logger and of ours."""
    loggers = MMLogger.get_current_instance(), logging.getLogger('mmeffvit')
    for logger in loggers:
        logger.setLevel(logging.INFO)
        logger.addHandler(caplog.handler)  # they do not propagate to the root logger
    yield caplog
    for logger in loggers:
        logger.removeHandler(caplog.handler)


@pytest.fixture(autouse=True)
def messages() -> Iterator[None]:
    """What the package reports is printed, as by its commands."""
    with shown():
        yield


@pytest.fixture(scope='session')
def coco_mini() -> Path:
    """Images of COCO, for tests that need real images."""
    return published('coco_mini')


def published(name: str) -> Path:
    folder = SHARED / name
    if not folder.is_dir():
        pytest.skip(f'the images are not at {folder}')
    return folder


@pytest.fixture(scope='session')
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve generated images of 64 pixels for training and four held out, in COCO's format."""
    folder = tmp_path_factory.mktemp('data') / 'shapes'
    generate(folder, ShapesSpec(num_train=12, num_val=4, side=64, max_objects=3))
    return folder


@pytest.fixture(scope='session')
def ade_shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two generated images of 120 x 90 pixels for training and one held out, in ADE20K's format."""
    folder = tmp_path_factory.mktemp('data') / 'ade'
    generate_ade20k(folder, ShapesSpec(num_train=2, num_val=1, side=120))
    return folder


def run_python(
    *arguments: object, env: dict | None = None, cwd: Path = ROOT, timeout: float = 600
) -> subprocess.CompletedProcess[str]:
    """Run Python in a subprocess, which leaves none behind; its output is text in ``stdout``."""
    # not a pipe: what it leaves behind would keep it open
    with tempfile.TemporaryFile('w+') as output:
        process = subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env={'OMP_NUM_THREADS': '2', **os.environ, **(env or {})},
            start_new_session=True,
        )
        try:
            process.wait(timeout)
        finally:  # a data loading process of a killed run waits forever for its reader
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        return subprocess.CompletedProcess(process.args, process.returncode, output.read())


def run_command(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Run ``mmeffvit COMMAND ...`` as a user does."""
    return run_python('-m', 'mmeffvit', *arguments, **options)


def run_command_here(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run ``mmeffvit COMMAND ...`` in this process, to save the imports of a new one."""
    return run_here(ROOT / 'mmeffvit' / '__main__.py', *arguments)


def run_tool_here(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a script of ``tools/`` in this process."""
    return run_here(ROOT / 'tools' / name, *arguments)


def output_of(*arguments: object) -> str:
    """What ``mmeffvit COMMAND ...`` prints that ends well, in this process."""
    return succeeded(run_command_here(*arguments))


def succeeded(done: subprocess.CompletedProcess[str]) -> str:
    """What a command has printed that ended well."""
    assert done.returncode == 0, done.stdout
    return done.stdout


def rejected(*arguments: object) -> str:
    """The one message that ``mmeffvit COMMAND ...`` ends with, in this process."""
    return message_of(run_command_here(*arguments))


def message_of(done: subprocess.CompletedProcess[str]) -> str:
    """The one message of a command that was rejected, without its beginning."""
    assert done.returncode == 2, done.stdout
    assert 'Traceback' not in done.stdout, done.stdout
    (message,) = re.findall(r'^(?:mmeffvit .*: )?error: (.*)', done.stdout, re.MULTILINE)
    return message


def run_here(script: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [str(script), *map(str, arguments)]
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        code = run_script(command)
    return subprocess.CompletedProcess(command, code, output.getvalue())


def run_script(command: list[str]) -> int:
    """Run a script with its arguments as ``python`` would, but in this process; its exit code."""
    path = [str(Path(command[0]).parent), *sys.path]
    with (
        mock.patch.object(sys, 'argv', command),
        mock.patch.object(sys, 'path', path),
        # a run is named after its config and second: the next would log where this one did, and
        # have no scope of its own
        mock.patch.dict(MMLogger._instance_dict),
        mock.patch.object(DefaultScope, '_instance_dict', OrderedDict()),
    ):
        try:
            runpy.run_path(command[0], run_name='__main__')
        except SystemExit as stop:
            return stop.code or 0
        finally:
            end_data_loading()
    return 0


def end_data_loading() -> None:
    """Stop the data loader workers: garbage collection would wait 5 s for each."""
    for thing in gc.get_objects():
        if type(thing) is _MultiProcessingDataLoaderIter:
            thing._shutdown_workers()


def require_or_skip(package: str) -> None:
    """Import an optional package for the tests of a module, or skip them with the reason."""
    try:
        require(package)
    except UserError as error:
        pytest.skip(str(error), allow_module_level=True)
