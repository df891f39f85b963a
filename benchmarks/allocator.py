"""Memory that a process keeps, so that no repetition waits for the kernel to map pages again."""

import ctypes

# of mallopt in glibc's malloc.h
TRIM_THRESHOLD, TOP_PAD, MMAP_MAX = -1, -2, -4
OPTIONS = {MMAP_MAX: 0, TRIM_THRESHOLD: 2**31 - 1, TOP_PAD: 2**28}
HOW = (
    'The allocator keeps freed memory (`MALLOC_MMAP_MAX_=0`, `MALLOC_TRIM_THRESHOLD_=2147483647`, '
    '`MALLOC_TOP_PAD_=268435456` of glibc do the same for a program): else maps of tens of '
    'megabytes are mapped and cleared anew in each pass: 40 to 70 % of the time at 64k tokens here.'
)


def keep_memory() -> bool:
    """Let glibc keep what it got, for the rest of the process; False where it is not glibc."""
    mallopt = getattr(ctypes.CDLL(None), 'mallopt', None)
    return mallopt is not None and all(mallopt(*option) == 1 for option in OPTIONS.items())
