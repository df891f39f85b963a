"""Progress bars for long loops."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from .machine import num_cores
from .messages import live, step

T = TypeVar('T')
R = TypeVar('R')


def progress(items: Iterable[T], description: str, total: int | None = None) -> Iterator[T]:
    """Iterate over the items with a progress bar on standard error.

    Args:
        items: What to iterate over.
        description: Text in front of the bar.
        total: Number of items; None for their length.
    """
    from rich.console import Console  # not where exported files run
    from rich.progress import track

    if live:
        return _steps(items, description)
    console = Console(stderr=True)
    return track(
        items,
        description,
        total=total,
        console=console,
        transient=True,
        disable=not console.is_terminal,  # it would write empty lines to a file
    )


def _steps(items: Iterable[T], description: str) -> Iterator[T]:
    """Show the number of the item in the live line of a job: there is one such line at a time."""
    for number, item in enumerate(items, 1):
        step(f'{description}, {number}')
        yield item


def in_threads(function: Callable[[T], R], items: Sequence[T], description: str) -> Iterator[R]:
    """Map in threads, with results in the order of the items; for work that releases the GIL."""
    with ThreadPoolExecutor(num_cores()) as pool:
        yield from progress(pool.map(function, items), description, len(items))
