"""Messages of long jobs, silent unless a program asks for them, as our commands do."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

logger = logging.getLogger('mmeffvit')


console: list[tuple[TextIO, TextIO]] = []  # streams of messages while others are redirected


# shows the steps of a job in place of a line each, on a terminal
live: list[Callable[[str], None]] = []


def step(text: str) -> None:
    """Report a step of a job, which a terminal shows until the next one."""
    if live:
        live[-1](text)
    else:
        logger.info(text)


class _Line(logging.Handler):
    """Messages on standard output, warnings on standard error, also while a job redirects them."""

    def emit(self, record: logging.LogRecord) -> None:
        streams = console[0] if console else (sys.stdout, sys.stderr)
        stream = streams[record.levelno >= logging.WARNING]
        print(record.getMessage(), file=stream, flush=True)


@contextmanager
def shown() -> Iterator[None]:
    """Print what the package reports while it works; inside another such context, once."""
    if any(isinstance(handler, _Line) for handler in logger.handlers):
        yield
        return
    handler, level, propagate = _Line(), logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False  # mmengine gives the root logger handlers of its own
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate
