"""Training in several processes on one host, by torchrun in a separate process."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.device import get_device

from mmeffvit.config.load import ALL, option_text, resolve_work_dir
from mmeffvit.errors import UserError
from mmeffvit.models.checkpoints.read import non_finite_allowed
from mmeffvit.utils.files import resource_dir
from mmeffvit.utils.interrupts import PARENT_REPORTS
from mmeffvit.utils.machine import num_cores
from mmeffvit.zoo.source import find_source

from .options import RunOptions, TrainOptions
from .resume import how_to_resume

PR_SET_PDEATHSIG = 1  # of Linux's prctl


def usual_processes() -> int:
    """Two on a CPU with two or more cores, otherwise one.

    For the short operators of a small model, two processes are faster than one with two threads.
    """
    return min(2, num_cores()) if get_device() == 'cpu' else 1


def train_in_processes(count: int, config: str, options: TrainOptions) -> None:
    """Run :func:`mmeffvit.train.engine.train.train` in ``count`` processes, by its command.

    The launcher is always torchrun.

    Raises:
        UserError: If the device cannot take them, or a process failed, which has printed its
            message.
        KeyboardInterrupt: After a signal, when all processes have ended.
    """
    check_count(count, options.device)
    arguments = [config, *(['--resume', options.resume] if options.resume else [])]
    arguments += ['--amp'] * options.amp + ['--auto-scale-lr'] * options.auto_scale_lr
    arguments += ['--no-check'] * (not options.check) + ['--strict'] * options.strict
    command = tool_command('train.py', arguments, replace(options, launcher='pytorch'), count)
    threads = os.environ.get('OMP_NUM_THREADS') or str(max(1, num_cores() // count))
    # packages are not imported from the current folder
    variables = {'OMP_NUM_THREADS': threads, 'PYTHONSAFEPATH': '1', PARENT_REPORTS: '1'}
    with start_tied(command, env={**os.environ, **variables}) as process:
        try:
            code = process.wait()
        except KeyboardInterrupt as error:
            process.send_signal(getattr(error, 'number', signal.SIGINT))
            process.wait()
            with suppress(UserError):  # a config that cannot be read has saved nothing
                error.__notes__ = [how_to_resume(run_of(config, options)[0])]
            raise
    if code:
        raise UserError('training failed; see its output above')


def tool_command(
    script: str, arguments: Sequence[str], options: RunOptions, count: int = 1
) -> list[str]:
    """The command that runs a script of ``tools/``, with torchrun if it is the launcher."""
    torchrun = ['-m', 'mmeffvit.train.engine.torchrun', '--standalone', f'--nproc_per_node={count}']
    prefix = [sys.executable, '-u', *(torchrun if options.launcher == 'pytorch' else ())]
    return [*prefix, str(resource_dir('tools') / script), *arguments, *arguments_of(options)]


def arguments_of(options: RunOptions) -> list[str]:
    """The options of a run as arguments of its command."""
    arguments = []
    if options.work_dir is not None:
        arguments += ['--work-dir', str(options.work_dir)]
    if options.seed is not None:
        arguments += ['--seed', str(options.seed)]
    arguments += ['--deterministic'] * options.deterministic + ['--verbose'] * options.verbose
    arguments += ['--allow-non-finite'] * non_finite_allowed()
    if options.device is not None:
        arguments += ['--device', options.device]
    if options.launcher != 'none':
        arguments += ['--launcher', options.launcher]
    if options.cfg_options:
        arguments += ['--cfg-options', *starmap(option_text, options.cfg_options.items())]
    return arguments


def check_count(count: int, device: str | None = None) -> None:
    """Check that there is at least 1 process, and a GPU for each if they are trained on."""
    if count < 1:
        raise UserError(f'--nproc-per-node is {count}; give 1 or more')
    gpus = 1 if ':' in (device or '') else torch.cuda.device_count()
    if get_device() == 'cuda' and count > gpus:
        there = 'there is 1 GPU' if gpus == 1 else f'there are {gpus} GPUs'
        raise UserError(
            f'--nproc-per-node is {count}, but {there}: give at most {gpus}, or --device cpu'
        )


def run_of(config: str, options: RunOptions) -> tuple[Path, Config]:
    """The work dir and the config of a run that another process starts."""
    found = find_source(config, options.cfg_options, ALL).config
    return resolve_work_dir(found, options.work_dir), found


def start_tied(command: Sequence[str], **options: Any) -> subprocess.Popen:
    """Start a process that gets SIGTERM when this one dies, even by SIGKILL.

    Otherwise it would collide with the next run in its work dir.
    """
    prctl = ctypes.CDLL(None).prctl if sys.platform == 'linux' else None
    tie = prctl and partial(prctl, PR_SET_PDEATHSIG, signal.SIGTERM)
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=tie, **options)
