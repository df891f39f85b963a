"""Messages and progress of long jobs, silent unless a program asks for them, as our commands do."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TextIO, TypeVar

from .machine import num_cores

T = TypeVar('T')
R = TypeVar('R')
logger = logging.getLogger('mmeffvit')


class Output:
    """Where the messages of a command go; only one command runs at a time."""

    streams: tuple[TextIO, TextIO] | None = None  # while those of the process are redirected
    live: Callable[[str], None] | None = None  # shows steps in one line, on a terminal


output = Output()


def step(text: str) -> None:
    """Report a step of a job, which a terminal shows until the next one."""
    if output.live is not None:
        output.live(text)
    else:
        logger.info(text)


def progress(items: Iterable[T], description: str, total: int | None = None) -> Iterator[T]:
    """Iterate over the items, ``total`` or as many as they have, with a bar on standard error."""
    from rich.console import Console  # not where exported files run
    from rich.progress import track

    if output.live is not None:
        return _steps(items, description)
    terminal = Console(stderr=True)
    return track(
        items,
        description,
        total=total,
        console=terminal,
        transient=True,
        disable=not terminal.is_terminal,  # it would write empty lines to a file
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
