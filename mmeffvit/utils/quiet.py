"""Suppress or redirect the output of other packages, and replace what they have."""

import io
import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from .files import own_file
from .messages import output


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress output, warnings, progress bars and log messages below errors, but not exceptions.

    For converters, exporters and pycocotools: users cannot act on their messages about untested
    versions and timings.
    """
    before = logging.root.manager.disable
    disable_logging(logging.WARNING)
    discarded = io.StringIO()
    try:
        with warnings.catch_warnings(), redirect_stdout(discarded), redirect_stderr(discarded):
            warnings.simplefilter('ignore')
            yield
    finally:
        disable_logging(before)


def disable_logging(level: int) -> None:
    """As ``logging.disable``, also for mmengine's loggers, which cache what is enabled."""
    logging.disable(level)
    mmengine = sys.modules.get('mmengine.logging')
    # not by `setLevel`: its lock stays taken in a thread that asked mmengine for a current instance
    # when there was none
    for logger in list(mmengine.MMLogger._instance_dict.values()) if mmengine else []:
        logger._cache.clear()


@contextmanager
def output_to(path: Path) -> Iterator[None]:
    """Append what is printed, logged to the console and warned about to a file.

    For mmengine's runner and the libraries that it calls, which print hundreds of lines. The file
    stays open for loggers that are created in the meantime; its folder is created.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = own_file(path).open('a', buffering=1, errors='backslashreplace')
    sys.stdout.flush()
    streams = output.streams or (sys.stdout, sys.stderr)
    with replaced(output, 'streams', streams), redirect_stdout(file), redirect_stderr(file):
        yield


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Replace an attribute of a module or an instance, and restore it."""
    is_own = name in vars(owner)
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if is_own:
            setattr(owner, name, before)
        else:
            delattr(owner, name)
