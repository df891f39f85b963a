"""What the CPU can do."""

import os
import platform
from functools import cache
from pathlib import Path

# CPU flags of Linux for 8-bit products that are added in 32 bits: x86 and ARM
DOT_PRODUCTS = ('avx512_vnni', 'avx_vnni', 'avx_vnni_int8', 'asimddp')


@cache
def has_int8_dot_product() -> bool:
    """Whether 8-bit products are added in 32 bits, by one instruction.

    x86 without it adds pairs of products in 16 bits, which saturates.
    """
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


def num_cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0))
