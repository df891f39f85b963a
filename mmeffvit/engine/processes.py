"""Training in several processes of one machine, through torchrun."""

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from mmengine.device import get_device
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.run import parse_args
from torch.distributed.run import run as run_torchrun

from mmeffvit.errors import UserError
from mmeffvit.utils.machine import num_cores
from mmeffvit.utils.resources import resource_dir

from .launch import RunOptions

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


def usual_processes() -> int:
    """Two on a CPU with two or more cores, otherwise one.

    The operators of a small model are too short to share between threads: two processes are faster
    than two threads in one.
    """
    return min(2, num_cores()) if get_device() == 'cpu' else 1


def train_in_processes(
    count: int,
    config: str,
    options: RunOptions,
    *,
    flags: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> None:
    """As ``tools/train.py CONFIG`` in ``count`` processes.

    Args:
        count: Number of processes.
        config: The config file.
        options: See :class:`RunOptions`; started by torchrun whatever its launcher.
        flags: Further arguments of the tool.
        environment: Variables for the processes.

    Raises:
        UserError: If one of them failed; its message stands above.
        KeyboardInterrupt: After Ctrl-C, when all have ended; other signals end as they would.
    """
    if count < 1:
        raise UserError(f'--processes is {count}; give 1 or more')
    threads = os.environ.get('OMP_NUM_THREADS') or str(max(1, num_cores() // count))
    tool = [str(resource_dir('tools') / 'train.py'), config, '--launcher', 'pytorch', *flags]
    if options.work_dir is not None:
        tool += ['--work-dir', str(options.work_dir)]
    if options.seed is not None:
        tool += ['--seed', str(options.seed)]
    if options.deterministic:
        tool += ['--deterministic']
    if options.cfg_options:
        tool += ['--cfg-options', *map('='.join, to_texts(options.cfg_options))]
    torchrun = parse_args(['--standalone', f'--nproc_per_node={count}', *tool])
    try:
        with own_handlers(), variables(dict(OMP_NUM_THREADS=threads, **(environment or {}))):
            run_torchrun(torchrun)
    except ChildFailedError as error:
        raise UserError('training failed; its output above says why') from error
    except SignalException as error:  # the processes have ended
        signal.raise_signal(error.sigval)


@contextmanager
def own_handlers() -> Iterator[None]:
    """Restore the signal handlers that torchrun replaces."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def to_texts(options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Keys and values as ``--cfg-options`` reads them."""
    for key, value in options.items():
        yield key, to_text(value)


def to_text(value: Any) -> str:
    if isinstance(value, list | tuple):
        start, end = '[]' if isinstance(value, list) else '()'
        return start + ','.join(map(to_text, value)) + end
    return str(value)


@contextmanager
def variables(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables of the environment, and restore them."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
