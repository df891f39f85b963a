"""CPU features, reported and tested, and memory of the machine."""

import ctypes
import json
import os
import platform
import resource
import signal
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

from mmeffvit.errors import UserError

from .files import cache_folder, write_file

# CPU flags of Linux for 8-bit products that are added in 32 bits: x86 and ARM
DOT_PRODUCTS = ('avx512_vnni', 'avx_vnni', 'avx_vnni_int8', 'asimddp')

ISA = 'ONEDNN_MAX_CPU_ISA'  # read by the oneDNN of torch and of OpenVINO, at their first operator
BELOW_AMX = 'AVX512_CORE_FP16'
PROBE = """
import torch
with torch.autocast('cpu', torch.bfloat16):  # oneDNN uses AMX for products in bf16
    torch.nn.Linear(64, 64)(torch.ones(64, 64))
"""

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's mallopt
MAX_INT, NEVER = 2**31 - 1, -1


def avoid_trapping_amx() -> None:
    """Keep torch and OpenVINO from AMX where the CPU reports it but traps on it with SIGILL.

    Some virtual machines do. Sets ``ONEDNN_MAX_CPU_ISA`` for this process and its children, unless
    the user has set it.
    """
    if ISA not in os.environ and reports_amx() and not amx_works():
        os.environ[ISA] = BELOW_AMX


def reports_amx() -> bool:
    return 'amx_tile' in cpu_info().get('flags', '').split()


def amx_works() -> bool:
    """Whether AMX works, which a child process tests once per environment, CPU and kernel.

    The results are in a file of the user's cache.
    """
    folder = cache_folder()
    machine = f'{cpu_name()}, {platform.release()}, {sys.prefix}'
    known = {}
    with suppress(OSError, ValueError):
        known = json.loads((folder / 'amx.json').read_text()) if folder else {}
    if machine not in known:
        # in a folder whose files it may import
        done = subprocess.run([sys.executable, '-c', PROBE], capture_output=True, cwd=sys.prefix)
        known[machine] = done.returncode != -signal.SIGILL
        with suppress(OSError, UserError):  # the next command tests again
            if folder:
                write_file(folder / 'amx.json', json.dumps(known))
    return known[machine]


@cache
def has_int8_dot_product() -> bool:
    """Whether one instruction adds 8-bit products in 32 bits; older x86 saturates at 16 bits."""
    if platform.machine() == 'arm64':  # of macOS: every Apple silicon
        return True
    info = cpu_info()
    words = (info.get('flags') or info.get('Features') or '').split()
    return not set(DOT_PRODUCTS).isdisjoint(words)


@cache
def cpu_info() -> dict[str, str]:
    """The first processor of /proc/cpuinfo; empty if it does not exist."""
    path = Path('/proc/cpuinfo')
    lines = path.read_text().split('\n\n')[0].splitlines() if path.is_file() else []
    pairs = (line.partition(':') for line in lines)
    return {key.strip(): value.strip() for key, _, value in pairs}


def cpu_name() -> str:
    return cpu_info().get('model name') or platform.processor() or platform.machine()


def keep_freed_memory() -> None:
    """Have glibc keep freed memory for the next operators instead of returning it to the kernel.

    It unmaps large feature maps after every use, and the page faults of mapping them again take a
    fifth of a training step. Other allocators and settings of the user are left alone.
    """
    is_set = any(name.startswith(('MALLOC_', 'GLIBC_TUNABLES')) for name in os.environ)
    if is_set or 'alloc' in os.environ.get('LD_PRELOAD', '') or not platform.libc_ver()[1]:
        return
    mallopt = ctypes.CDLL(None).mallopt
    if mallopt(M_MMAP_THRESHOLD, MAX_INT):
        mallopt(M_TRIM_THRESHOLD, NEVER)


def num_cores() -> int:
    """Number of cores that this process may use."""
    if hasattr(os, 'sched_getaffinity'):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def resident_memory(*, peak: bool = False) -> int:
    """Resident memory of this process in bytes; always the peak on systems other than Linux."""
    status = Path('/proc/self/status')
    if status.exists():  # a process inherits the peak of getrusage from its parent
        return _bytes(status, 'VmHWM' if peak else 'VmRSS')
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def free_memory() -> int:
    """Bytes of memory that are free for this process, in the machine and in its container."""
    free = _bytes(Path('/proc/meminfo'), 'MemAvailable')
    limit, current, parts = (
        Path('/sys/fs/cgroup', f'memory.{name}') for name in ('max', 'current', 'stat')
    )
    if limit.is_file() and (text := limit.read_text().strip()) != 'max':
        # pages of files that were read count as used, until others need them
        cache = dict(line.split() for line in parts.read_text().splitlines()).get('inactive_file')
        free = min(free, int(text) - int(current.read_text()) + int(cache or 0))
    return free


def _bytes(path: Path, name: str) -> int:
    """A number that the kernel reports in kB."""
    lines = dict(line.split(':', 1) for line in path.read_text().splitlines())
    return int(lines[name].split()[0]) * 1024
