"""Memory that a process keeps, so that no forward pass waits for the kernel to map pages again."""

import ctypes
import sys

# of mallopt in glibc's malloc.h
TRIM_THRESHOLD, TOP_PAD, MMAP_MAX = -1, -2, -4
OPTIONS = {MMAP_MAX: 0, TRIM_THRESHOLD: 2**31 - 1, TOP_PAD: 2**28}


def keep_memory() -> bool:
    """Let glibc's malloc keep the memory it got, for the rest of the process.

    By default it gives large maps back to the kernel after each use, which maps and clears them
    anew. Kept, the process stays at its peak size. The same as starting a program with
    ``MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=2147483647 MALLOC_TOP_PAD_=268435456``.

    Returns:
        Whether it is so now: False where the C library is not glibc, and nothing has changed.
    """
    if sys.platform != 'linux':
        return False
    mallopt = getattr(ctypes.CDLL(None), 'mallopt', None)
    return mallopt is not None and all(mallopt(*option) == 1 for option in OPTIONS.items())
