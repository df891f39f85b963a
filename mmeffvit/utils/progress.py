"""Long loops with a progress bar."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from rich.console import Console
from rich.progress import track

T = TypeVar('T')
R = TypeVar('R')


def progress(items: Iterable[T], description: str, total: int | None = None) -> Iterator[T]:
    """Go through the items behind a progress bar on standard error.

    Args:
        items: What is gone through.
        description: Stands before the bar.
        total: How many items; None asks them.
    """
    console = Console(stderr=True)
    return track(
        items,
        description,
        total=total,
        console=console,
        transient=True,
        disable=not console.is_terminal,  # a file would get empty lines
    )


def in_threads(function: Callable[[T], R], items: Sequence[T], description: str) -> Iterator[R]:
    """Results in the order of the items; decoding lets other threads run."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        yield from progress(pool.map(function, items), description, len(items))
