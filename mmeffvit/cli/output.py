"""What the package reports, on the streams of a command."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from mmeffvit.utils.messages import console, logger


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
