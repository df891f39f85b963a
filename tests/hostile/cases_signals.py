"""Ctrl-C and SIGTERM at every stage: one line, exit code 130 or 143, and valid checkpoints."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from mmeffvit.utils.files import PARTIAL
from tests.hostile.commands import command, needs
from tests.hostile.judge import Case, Silent
from tests.hostile.world import World, dice

# what a run prints, or seconds after its start
STAGES: dict[str, str | float] = {
    'while it is built': 0.3,
    'in training': r'Epoch\(train\)',
    'while a checkpoint is written': 'Saving checkpoint',
    'in validation': r'Epoch\(val\)',
}
TRAIN = (
    'train', 'detector.py', '--no-check', '--verbose', '--work-dir', 'work', '--cfg-options',
    'default_hooks.logger.interval=1', 'train_cfg.max_epochs=50', 'train_cfg.val_interval=2',
)  # fmt: skip
OTHERS: dict[str, tuple[str, ...]] = {
    'test': ('test', 'detector.py', 'run/epoch_2.pth', '--work-dir', 'work'),
    'check': ('check', 'detector.py'),
    'export': ('export', 'detector.py', 'run/epoch_2.pth', 'out.onnx'),
    'predict': ('predict', 'detector.py', 'run/epoch_2.pth', 'images', '--out-dir', 'pictures',
                '--out', 'found.json'),
}  # fmt: skip
NUMBERS = {'Ctrl-C': signal.SIGINT, 'SIGTERM': signal.SIGTERM}
LIMIT = 200  # seconds
WRITING = 'a temporary folder'  # is beside an output


def cases(world: World, seed: int, more: int) -> Iterator[Case]:
    ready = needs(world, 'detector.py', 'shapes', 'run/epoch_2.pth', 'images')
    case = partial(Case, 'signals', 'a command', prepare=ready, expect='work')
    for stage, when in STAGES.items():
        for name, number in NUMBERS.items():
            is_control = stage == 'in training' and name == 'Ctrl-C'
            yield case(f'{name} {stage}', interrupt(forked(TRAIN), when, number),
                       says=('interrupted',), is_control=is_control)  # fmt: skip
    yield Case('signals', 'a command', 'bad', interrupt(forked(('check', 'none.py')), 9.0, 2),
               ready, says=("config 'none.py' does not exist",), is_control=True)  # fmt: skip
    for index in range(10 * (more - 1)):
        delay = dice('signals', seed, index).uniform(0, 4)
        number = signal.SIGINT if index % 2 else signal.SIGTERM
        yield case(
            f'{index}, after {delay:.2f} s of training', interrupt(forked(TRAIN), delay, number)
        )
    for what, arguments in OTHERS.items():
        for delay in (0.3, 1.0):
            job = interrupt(forked(arguments), delay, signal.SIGINT, is_short=True)
            yield case(f'{what} after {delay} s', job, says=('interrupted',))
    for what in ('export', 'predict'):
        for name, number in NUMBERS.items():
            job = interrupt(forked(OTHERS[what]), WRITING, number)
            yield case(f'{name} while {what} writes', job, says=('interrupted',))
    for delay in (0.8, 1.5, 2.5, 4.0):  # real time, of a busy machine
        job = interrupt(started(('check', 'detector.py')), delay, signal.SIGINT, is_short=True)
        yield case(f'imports after {delay} s', job)
    in_two = (*TRAIN[:2], '--nproc-per-node', '2', *TRAIN[2:])
    for name, number in NUMBERS.items():
        for stage in ('in training', 'while a checkpoint is written'):
            job = interrupt(started(in_two), STAGES[stage], number)
            yield case(f'{name} {stage} of two processes', job)
    yield Case('signals', 'train', 'good', command(*TRAIN[:-2], 'train_cfg.max_epochs=1'), ready,
               'work', makes=('work/epoch_1.pth',), is_control=True)  # fmt: skip


def forked(arguments: tuple[str, ...]) -> Callable[[Path], int]:
    """Start a command in a forked process, which has imported everything."""

    def start(output: Path) -> int:
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            os.setsid()
            descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for number in (1, 2):
                os.dup2(descriptor, number)
            from mmeffvit.cli.main import main

            main(arguments)
            code = 0
        except SystemExit as stop:
            code = stop.code
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    return start


def started(arguments: tuple[str, ...]) -> Callable[[Path], int]:
    """Start a command in a new process."""

    def start(output: Path) -> int:
        command = [sys.executable, '-m', 'mmeffvit', *arguments]
        with output.open('w') as file:
            process = subprocess.Popen(
                command, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
            )
        return process.pid

    return start


def interrupt(
    start: Callable[[Path], int], when: str | float, number: int, *, is_short: bool = False
) -> Callable[[Path], None]:
    """Send a signal to a command, and look at its end.

    Args:
        start: Starts the command with its output in a file, and returns its process.
        when: A pattern of its output, :data:`WRITING`, or seconds after its start.
        number: The signal; SIGINT goes to the whole group, as from a terminal.
        is_short: The command may end before; it is started again, for half of the time.
    """

    def job(folder: Path) -> None:
        output, after = folder / 'output.txt', when
        code = interrupted(start(output), after, number, output)
        for _ in range(8 if is_short else 0):
            if code:
                break
            after /= 2
            code = interrupted(start(output), after, number, output)
        look_at(code, number, output)
        check_saved(folder / 'work')

    return job


def interrupted(pid: int, when: str | float, number: int, output: Path) -> int:
    """The exit code of a process after a signal, or 0 if it has ended well before."""
    begin = time.monotonic()
    while not has_come(when, output, time.monotonic() - begin):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done and not status:
            return 0
        if done or time.monotonic() - begin > LIMIT:
            text = output.read_text()
            lines = [line for line in text.splitlines() if line.startswith('error')]
            print(*lines[-1:] or [f'error: it ended before the signal: {text[-500:]!r}'])
            raise SystemExit(2)
        time.sleep(0.01)
    (os.killpg if number == signal.SIGINT else os.kill)(pid, number)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def has_come(when: str | float, output: Path, seconds: float) -> bool:
    if isinstance(when, float):
        return seconds > when
    if when == WRITING:
        return any(output.parent.glob(f'.*{PARTIAL}'))
    return output.is_file() and re.search(when, output.read_text()) is not None


def look_at(code: int, number: int, output: Path) -> None:
    text = output.read_text()
    lines = [line for line in text.splitlines() if line.startswith('interrupted')]
    if code != 128 + number or len(lines) != 1 or 'Traceback' in text:
        raise Silent(f'exit code {code} after signal {number}:\n{text[-3000:]}')
    print(lines[0])


def check_saved(work_dir: Path) -> None:
    """Every checkpoint is whole, and the latest one can be resumed."""
    from mmeffvit.zoo.runs import latest_checkpoint, saved_checkpoints

    saved = saved_checkpoints(work_dir)
    latest = latest_checkpoint(work_dir)
    if saved and (latest is None or latest.path != saved[0]):
        raise Silent(f'{saved[0]} cannot be resumed')
