"""What the CPU can do."""

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
    info = Path('/proc/cpuinfo')
    words = info.read_text().split() if info.exists() else ()
    return not set(DOT_PRODUCTS).isdisjoint(words)
