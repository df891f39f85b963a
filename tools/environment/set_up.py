#!/usr/bin/env python
"""Create .venv with the tested stack, unless it exists.

mmcv has no wheels for current torch versions: its operators are built once, and the wheel is cached
outside the checkout under a name with the Python, torch and mmcv versions.

Needs only the standard library.
"""

import argparse
import contextlib
import fcntl
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
VENV = ROOT / '.venv'
PYTHON = VENV / 'bin' / 'python'
STAMP = VENV / 'mmeffvit-stack'  # what is installed for training
FULL_STAMP = VENV / 'mmeffvit-full'  # what is installed for tests and exports
MARK = VENV / 'mmeffvit-made'  # a .venv without this file is never removed
PARITY = VENV / 'parity'
CLASSIFICATION = VENV / 'classification'
TORCH = 'torch==2.13.0'
MMCV = '2.1.0'
BUILD_TOOLS = ('setuptools<82', 'wheel', 'ninja')  # newer setuptools lack pkg_resources
SUPPORTED = ((3, 10), (3, 12))


class SetUpError(Exception):
    """An error that the user can fix; the message says how."""


def check_venv() -> bool:
    """Whether .venv exists.

    Raises:
        SetUpError: If it was not created by this script.
    """
    there = VENV.is_symlink() or VENV.exists()
    if there and not MARK.is_file() and not STAMP.is_file():
        raise SetUpError(f'{VENV} was not made by this script: move it, or use another checkout')
    return there


def create_venv() -> None:
    """Create .venv, and recreate it if it has another Python version."""
    there = check_venv()
    if PYTHON.exists() and venv_version() == sys.version_info[:2]:
        MARK.touch()
        return
    if there:
        say(f'.venv is incomplete, or of another Python than {sys.executable}: recreating it')
        shutil.rmtree(VENV)
    say(f'creating .venv with Python {platform.python_version()}')
    VENV.mkdir()
    MARK.touch()
    run(sys.executable, '-m', 'venv', str(VENV))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        '--full', action='store_true', help='what tests, exports and docs need, too'
    )
    parser.add_argument('--remove', action='store_true', help='remove .venv, if it was made here')
    arguments = parser.parse_args()
    if arguments.remove:
        if check_venv():
            shutil.rmtree(VENV)
        return
    check_machine()
    start = time.monotonic()
    if not is_stamped(STAMP):
        install_stack()
        say(f'.venv is ready after {clock(time.monotonic() - start)}')
    if arguments.full and not is_stamped(FULL_STAMP):
        install_full()
        say(f'the rest is ready after {clock(time.monotonic() - start)}')


def is_stamped(stamp: Path) -> bool:
    return stamp.is_file() and stamp.read_text() == fingerprint()


def install_stack() -> None:
    """Install the packages for training and visualization."""
    create_venv()
    STAMP.unlink(missing_ok=True)
    FULL_STAMP.unlink(missing_ok=True)
    say(f'installing {TORCH}')
    pip('install', *BUILD_TOOLS, TORCH)
    wheel = mmcv_wheel()
    say('installing the stack')
    pip('install', '--force-reinstall', '--no-deps', str(wheel))
    pip('install', '-r', str(HERE / 'stack.txt'), str(wheel))
    say('installing mmeffvit from this checkout')
    pip('install', '--no-deps', '--no-build-isolation', '-e', str(ROOT))
    check_opencv()
    run(str(PYTHON), '-c', 'import mmcv.ops, mmdet, mmseg, mmeffvit')
    STAMP.write_text(fingerprint())


def install_full() -> None:
    """Install the packages for tests, exporters, runtimes and the documentation."""
    say('installing test tools, exporters, runtimes and documentation tools')
    pip('install', '-r', str(HERE / 'stack.txt'), '-r', str(HERE / 'full.txt'))
    say('installing mmpretrain, timm and torchvision, apart from the rest')
    for folder in (PARITY, CLASSIFICATION):
        shutil.rmtree(folder, ignore_errors=True)
        needed = HERE / f'{folder.name}.txt'
        pip('install', '--no-deps', '--target', str(folder), '-r', str(needed))
    FULL_STAMP.write_text(fingerprint())


def check_machine() -> None:
    if not SUPPORTED[0] <= sys.version_info[:2] <= SUPPORTED[1]:
        raise SetUpError(
            f'Python {platform.python_version()} is not supported, 3.10 to 3.12 are: '
            'PYTHON=python3.11 make ...'
        )


def fingerprint() -> str:
    """Everything that .venv depends on; it is set up again if this changes."""
    digest = hashlib.sha256()
    for path in (*sorted(HERE.glob('*.txt')), *sorted(HERE.glob('*.py'))):
        digest.update(path.read_bytes())
    return f'{wheel_key()} {ROOT} {digest.hexdigest()}'


def wheel_key() -> str:
    """Python, torch and mmcv: what an operator library is built for."""
    python = f'cp{sys.version_info.major}{sys.version_info.minor}'
    return f'{python}-{platform.system()}-{platform.machine()}-torch{torch_version()}-mmcv{MMCV}'


def torch_version() -> str:
    """The version in .venv with its build, such as 2.13.0+cpu, or an empty string."""
    if not PYTHON.exists():
        return ''
    code = 'from importlib.metadata import version; print(version("torch"))'
    found = subprocess.run([PYTHON, '-c', code], capture_output=True, text=True)
    return found.stdout.strip()


def venv_version() -> tuple[int, ...]:
    code = 'import sys; print(*sys.version_info[:2])'
    found = subprocess.run([PYTHON, '-c', code], capture_output=True, text=True)
    return tuple(map(int, found.stdout.split()))


def mmcv_wheel() -> Path:
    """The wheel for this Python and torch, from the cache or built into it."""
    cache = Path(os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache')
    folder = cache / 'mmeffvit' / 'wheels' / wheel_key()
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / 'lock'):
        wheels = list(folder.glob('mmcv-*.whl'))
        if wheels:
            say(f'using the mmcv wheel in {folder}')
            return wheels[0]
        if shutil.which(os.environ.get('CXX', 'c++')) is None:
            raise SetUpError('a C++ compiler is needed to build mmcv: apt-get install g++')
        partial = folder / 'partial'
        shutil.rmtree(partial, ignore_errors=True)
        build_mmcv(partial, folder / 'build.log')
        (built,) = partial.glob('mmcv-*.whl')
        final = folder / built.name
        built.replace(final)
        shutil.rmtree(partial)
        return final


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock the path: another checkout may be building the same wheel."""
    with path.open('w') as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f'another set-up holds {path}: waiting for it')
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def build_mmcv(target: Path, log: Path) -> None:
    """Build the wheel into ``target`` with a progress bar."""
    jobs = os.environ.get('MAX_JOBS') or str(len(os.sched_getaffinity(0)))
    say(f'building the operators of mmcv {MMCV} with {jobs} jobs, 4 to 8 minutes on 2 cores')
    command = [str(PYTHON), '-m', 'pip', 'wheel', '-v', '--no-deps', '--no-build-isolation']
    command += ['--no-cache-dir', '--no-binary', 'mmcv', '-w', str(target), f'mmcv=={MMCV}']
    # pip must find the ninja and the compiler wrappers of .venv
    path = f'{VENV / "bin"}{os.pathsep}{os.environ["PATH"]}'
    environment = {**os.environ, 'MMCV_WITH_OPS': '1', 'MAX_JOBS': jobs, 'PATH': path}
    environment |= compiler_of(target)
    with log.open('w') as file:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )
        bar = ProgressBar()
        for line in process.stdout:
            file.write(line)
            step = re.match(r'\s*\[(\d+)/(\d+)\]', line)
            if step:
                bar.show(int(step[1]), int(step[2]))
    if process.wait():
        tail = ''.join(log.read_text().splitlines(keepends=True)[-25:])
        raise SetUpError(f'{tail}\nbuilding mmcv failed; the whole log is {log}')
    bar.close()


def compiler_of(folder: Path) -> dict[str, str]:
    """Environment variables for a compiler that parses torch's headers once: see compiler.py.

    GCC alone reads compiled headers this way; with another compiler there are none.
    """
    compiler = os.environ.get('CXX', 'c++')
    said = subprocess.run([compiler, '--version'], capture_output=True, text=True).stdout
    if 'Free Software Foundation' not in said:
        return {}
    folder.mkdir(parents=True, exist_ok=True)
    wrapper = folder.absolute() / 'g++'  # torch knows compilers by their names
    call = f'exec {shlex.quote(str(PYTHON))} -S {shlex.quote(str(HERE / "compiler.py"))} "$@"'
    wrapper.write_text(f'#!/bin/sh\n{call}\n')
    wrapper.chmod(0o755)
    return {'CXX': str(wrapper), 'MMEFFVIT_CXX': compiler}


class ProgressBar:
    """A progress bar with the time left; without a terminal, one line per 10 %."""

    def __init__(self) -> None:
        self.start = self.first = time.monotonic()
        self.tenth = -1
        self.live = sys.stdout.isatty()

    def show(self, done: int, total: int) -> None:
        tenth = 10 * done // total
        if not self.live and tenth == self.tenth:
            return
        self.tenth = tenth
        now = time.monotonic()
        if done == 1:  # it includes the time for the shared headers: do not use it for the rate
            self.first = now
        rest = (now - self.first) / max(done - 1, 1) * (total - done)
        left = f'{clock(rest)} left' if done > 1 else 'estimating'
        bar = ('#' * (30 * done // total)).ljust(30, '.')
        text = f'  [{bar}] {done}/{total} files, {clock(now - self.start)} elapsed, {left}'
        print(text, end='\r' if self.live else '\n', flush=True)

    def close(self) -> None:
        if self.live:
            print()


def check_opencv() -> None:
    """Replace opencv-python by its headless build if it does not load, as on servers without libGL.

    mmcv and mmengine require opencv-python, so it is tried first.
    """
    found = subprocess.run([PYTHON, '-c', 'import cv2'], capture_output=True, text=True)
    if found.returncode == 0:
        return
    reason = found.stderr.strip().splitlines()[-1]
    say(f'opencv-python does not load ({reason}): replacing it by opencv-python-headless')
    pin = next(p for p in (HERE / 'stack.txt').read_text().splitlines() if 'opencv' in p)
    pip('uninstall', '-y', 'opencv-python')
    pip('install', '--no-deps', pin.replace('opencv-python', 'opencv-python-headless'))


def pip(*arguments: str) -> None:
    quiet = [] if sys.stdout.isatty() else ['--quiet']  # show progress bars only on a terminal
    run(str(PYTHON), '-m', 'pip', '--disable-pip-version-check', *arguments, *quiet)


def run(*command: str) -> None:
    if subprocess.run(command, cwd=ROOT).returncode:
        raise SetUpError(f'this failed: {" ".join(command)}')


def clock(seconds: float) -> str:
    return f'{int(seconds) // 60}:{int(seconds) % 60:02d}'


def say(text: str) -> None:
    print(f'[set-up] {text}', flush=True)


if __name__ == '__main__':
    try:
        main()
    except SetUpError as error:
        sys.exit(f'[set-up] error: {error}')
