#!/usr/bin/env python
"""Create .venv with the tested stack, unless it exists.

Everything is installed from wheels; a compiler is not needed. uv installs them if it is there, else
pip. Environment variables:

    TORCH_INDEX  package index of torch and torchvision, such as
                 https://download.pytorch.org/whl/cpu; by default the one that pip is set to
    TORCH        another version of torch, such as 2.15.0; torchvision is the one that fits

Needs only the standard library.
"""

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
LAYOUT = '2'  # contents of MARK; a .venv of another layout is recreated. The first one built mmcv
TORCH = ('torch==2.14.1', 'torchvision==0.29.1')
CPU_INDEX = 'https://download.pytorch.org/whl/cpu'
SUPPORTED = ((3, 10), (3, 14))

# torchvision's operators load only into a torch of the same kind, +cpu or +cuVERSION. The kind is
# read from its version file, since the import itself may fail.
PAIR = """
from importlib.util import find_spec
from pathlib import Path
import torch
print('torch', torch.__version__)
folder = find_spec('torchvision').submodule_search_locations[0]
print('torchvision', Path(folder, 'version.py').read_text().split("'")[1])
import torchvision
torchvision.ops.nms(torch.zeros(1, 4), torch.zeros(1), 0.5)
"""


def use(venv: Path) -> None:
    """Choose the environment that this script works on."""
    global VENV, PYTHON, STAMP, FULL_STAMP, MARK
    VENV = venv
    PYTHON = VENV / 'bin' / 'python'
    STAMP = VENV / 'mmeffvit-stack'  # what is installed for training
    FULL_STAMP = VENV / 'mmeffvit-full'  # what is installed for tests and exports
    MARK = VENV / 'mmeffvit-made'  # a .venv without this file is never removed


use(ROOT / '.venv')


class SetUpError(Exception):
    """An error that the user can fix; the message says how."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        '--full', action='store_true', help='what tests, exports and docs need, too'
    )
    parser.add_argument('--remove', action='store_true', help='remove .venv, if it was made here')
    arguments = parser.parse_args()
    if arguments.remove:
        if check_venv():
            remove_venv()
        return
    check_machine()
    start = time.monotonic()
    if not is_stamped(STAMP, 'stack.txt'):
        install_stack()
        say(f'.venv is ready after {clock(time.monotonic() - start)}')
    if arguments.full and not is_stamped(FULL_STAMP, 'stack.txt', 'full.txt'):
        install_full()
        say(f'the rest is ready after {clock(time.monotonic() - start)}')


def check_machine() -> None:
    if not SUPPORTED[0] <= sys.version_info[:2] <= SUPPORTED[1]:
        raise SetUpError(
            f'Python {platform.python_version()} is not supported, 3.10 to 3.14 are: '
            'PYTHON=python3.12 make ...'
        )


def check_venv() -> bool:
    """Whether .venv exists.

    Raises:
        SetUpError: If it was not created by this script.
    """
    there = VENV.is_symlink() or VENV.exists()
    if there and not MARK.is_file() and not STAMP.is_file():
        raise SetUpError(f'{VENV} was not made by this script: move it, or use another checkout')
    return there


def remove_venv() -> None:
    if VENV.is_symlink():
        raise SetUpError(f'{VENV} is a link to another folder: remove the link')
    shutil.rmtree(VENV)


def create_venv() -> None:
    """Create .venv, and recreate it if it has another Python version or layout."""
    there = check_venv()
    if there and is_current():
        return
    if there:
        say(f'.venv is incomplete, outdated or of another Python than {sys.executable}: recreating')
        remove_venv()
    say(f'creating .venv with Python {platform.python_version()}')
    VENV.mkdir()
    MARK.write_text(LAYOUT)
    uv = shutil.which('uv')
    if uv:
        run(uv, 'venv', '--quiet', '--seed', '--allow-existing', '-p', sys.executable, str(VENV))
    else:
        run(sys.executable, '-m', 'venv', str(VENV))


def is_current() -> bool:
    """Whether .venv has this version of Python, and this script's layout."""
    if not (PYTHON.exists() and MARK.is_file() and MARK.read_text() == LAYOUT):
        return False
    code = 'import sys; print(*sys.version_info[:2])'
    found = subprocess.run([PYTHON, '-c', code], capture_output=True, text=True)
    return tuple(map(int, found.stdout.split())) == sys.version_info[:2]


def install_stack() -> None:
    """Install the packages for training and visualization."""
    create_venv()
    STAMP.unlink(missing_ok=True)
    FULL_STAMP.unlink(missing_ok=True)
    install_torch()
    say('installing the stack')
    install('-r', str(HERE / 'stack.txt'))
    say('installing mmeffvit from this checkout')
    install('--no-deps', '--no-build-isolation', '-e', str(ROOT))
    check_opencv()
    run(str(PYTHON), '-c', 'import mmcv.ops, mmdet, mmseg, mmeffvit')
    write_stamp(STAMP, 'stack.txt')


def install_torch() -> None:
    """Install torch and torchvision of one kind; without a GPU the smaller CPU builds, if any."""
    version = os.environ.get('TORCH')
    pair = (f'torch=={version}', 'torchvision') if version else TORCH
    if not (index_options() or version or has_gpu()):
        cpu = [f'{pin}+cpu' for pin in pair]
        pair = cpu if is_offered(*cpu) else pair
    say(f'installing {" and ".join(pair)}')
    install(*index_options(), *pair)
    say(check_pair())


def index_options() -> list[str]:
    """The options of pip and uv for the index of torch."""
    index = os.environ.get('TORCH_INDEX')
    return ['--index-url', index] if index else []


def check_pair() -> str:
    """Import torch and torchvision in a process of their own, and describe them.

    Raises:
        SetUpError: If they do not work together.
    """
    done = subprocess.run([PYTHON, '-c', PAIR], capture_output=True, text=True)
    found = ' and '.join(done.stdout.splitlines())
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f'exit code {done.returncode}'])[-1]
        raise SetUpError(
            f'{found or "torch"} do not work together ({reason}): take both from one index, such '
            f'as TORCH_INDEX={CPU_INDEX}, or another version, such as TORCH=2.14.1'
        )
    return found


def has_gpu() -> bool:
    return shutil.which('nvidia-smi') is not None or Path('/proc/driver/nvidia').exists()


def install_full() -> None:
    """Install the packages for tests, exporters, runtimes and the documentation."""
    say('installing test tools, exporters, runtimes and documentation tools')
    install('-r', str(HERE / 'stack.txt'), '-r', str(HERE / 'full.txt'))
    check_pair()
    write_stamp(FULL_STAMP, 'stack.txt', 'full.txt')


def is_stamped(stamp: Path, *lists: str) -> bool:
    """Whether .venv has what the lists name, with the chosen torch or, without a choice, any."""
    if not stamp.is_file():
        return False
    known, *chosen = stamp.read_text().splitlines()
    return known == fingerprint(*lists) and choices() in ([], chosen)


def write_stamp(stamp: Path, *lists: str) -> None:
    stamp.write_text('\n'.join([fingerprint(*lists), *choices()]))


def choices() -> list[str]:
    """What the user chose about torch."""
    names = ('TORCH', 'TORCH_INDEX')
    return [f'{name}={os.environ[name]}' for name in names if os.environ.get(name)]


def fingerprint(*lists: str) -> str:
    """Everything else that .venv depends on; it is set up again if this changes."""
    digest = hashlib.sha256()
    for path in (Path(__file__), *(HERE / name for name in lists)):
        digest.update(path.read_bytes())
    return f'{LAYOUT} {platform.python_version()} {ROOT} {digest.hexdigest()}'


def check_opencv() -> None:
    """Replace opencv-python by its headless build if it does not load, as on servers without libGL.

    mmcv and mmengine require opencv-python, so it is tried first.
    """
    found = subprocess.run([PYTHON, '-c', 'import cv2'], capture_output=True, text=True)
    if found.returncode == 0:
        return
    reason = found.stderr.strip().splitlines()[-1]
    say(f'opencv-python does not load ({reason}): replacing it by opencv-python-headless')
    pins = (HERE / 'stack.txt').read_text().splitlines()
    headless = [
        pin.replace('opencv-python', 'opencv-python-headless')
        for pin in pins
        if pin.startswith('opencv-python=')
    ]
    run(*installer('uninstall'), 'opencv-python')
    install('--no-deps', *headless)


def is_offered(*pins: str) -> bool:
    """Whether the index has wheels of these versions for this machine."""
    command = [*installer('install'), '--dry-run', '--no-deps', '--quiet', *pins]
    return subprocess.run(command, cwd=ROOT, capture_output=True).returncode == 0


def install(*arguments: str) -> None:
    quiet = [] if sys.stdout.isatty() else ['--quiet']  # show progress bars only on a terminal
    run(*installer('install'), *arguments, *quiet)


def installer(command: str) -> list[str]:
    """The call of uv, or of pip, for .venv."""
    uv = shutil.which('uv')
    if uv:
        compiled = ['--compile-bytecode'] if command == 'install' else []  # as pip does
        return [uv, 'pip', command, '--python', str(PYTHON), *compiled]
    yes = ['--yes'] if command == 'uninstall' else []
    return [str(PYTHON), '-m', 'pip', '--disable-pip-version-check', command, *yes]


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
