"""Suppressing the output of other packages."""

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress output, warnings, progress bars and log messages below errors, but not exceptions.

    For converters, exporters and pycocotools: users cannot act on their messages about untested
    versions and timings.
    """
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    discarded = io.StringIO()
    try:
        with warnings.catch_warnings(), redirect_stdout(discarded), redirect_stderr(discarded):
            warnings.simplefilter('ignore')
            yield
    finally:
        logging.disable(before)
