"""What other packages say of their own work, held back."""

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout


@contextmanager
def quiet() -> Iterator[None]:
    """Hold back output, warnings, progress bars and the log below errors; errors come through.

    For converters, exporters and pycocotools: what they say, of versions not tried and of the time
    they take, no user could mend.
    """
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    unheard = io.StringIO()
    try:
        with warnings.catch_warnings(), redirect_stdout(unheard), redirect_stderr(unheard):
            warnings.simplefilter('ignore')
            yield
    finally:
        logging.disable(before)
