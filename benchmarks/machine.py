"""Description of the machine of a measurement."""

import datetime
import os
import platform
import re
import subprocess
from pathlib import Path

import torch

from mmeffvit.utils.machine import cpu_info, cpu_name, num_cores
from mmeffvit.utils.optional import require
from mmeffvit.version import __version__

ROOT = Path(__file__).resolve().parents[1]
FLAGS = ('avx2', 'fma', 'avx512f', 'avx512_vnni', 'amx_tile')  # they determine the kernels


def describe(device: str, clock: str) -> dict[str, str]:
    """Machine and versions; measurements with different ones are not comparable."""
    found = {
        'cpu': cpu_name(),
        'cores': str(num_cores()),
        'flags': ' '.join(flag for flag in FLAGS if flag in cpu_info().get('flags', '').split()),
        'clock': clock,
        'kernels of torch': torch.backends.cpu.get_cpu_capability(),
        'python': platform.python_version(),
        'mmeffvit': __version__,
        'torch': torch.__version__,
        'timm': require('timm').__version__,
        'onnxruntime': require('onnxruntime').__version__,
    }
    if device == 'cuda':
        found['gpu'] = torch.cuda.get_device_name()
    return found


def folder_name(machine: dict[str, str]) -> str:
    """The folder name for a machine."""
    name = machine.get('gpu') or f'{machine["cpu"]} {machine["cores"]} cores'
    return re.sub(r'[^a-z0-9]+', '_', name.lower()).strip('_')


def circumstances() -> dict[str, str | float]:
    """What may differ between rows: commit, date and load of the machine."""
    return {
        'commit': commit(),
        'date': datetime.datetime.now().astimezone().isoformat(timespec='seconds'),
        'load': round(os.getloadavg()[0], 2),
    }


def commit() -> str:
    """The current commit, with a + for local changes of the package; empty without git."""

    def git(*arguments: str) -> str:
        run = subprocess.run(['git', *arguments], cwd=ROOT, capture_output=True, text=True)
        return run.stdout.strip()

    try:
        changed = git('status', '--porcelain', 'mmeffvit')
        return git('rev-parse', '--short', 'HEAD') + ('+' if changed else '')
    except FileNotFoundError:
        return ''
