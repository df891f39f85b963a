"""The messages of a command, and its end: user errors and interruptions without a traceback."""

import logging
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from mmeffvit.errors import UserError
from mmeffvit.utils.interrupts import Raiser, handled, is_first_process, reports
from mmeffvit.utils.messages import logger, output
from mmeffvit.utils.text import escape

EXIT_CODE = 2  # of user errors


class _Line(logging.Handler):
    """Messages on standard output, warnings on standard error, also while a job redirects them."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno < logging.WARNING and not is_first_process():
            return  # all processes say the same
        streams = output.streams or (sys.stdout, sys.stderr)
        stream = streams[record.levelno >= logging.WARNING]
        print(record.getMessage(), file=stream, flush=True)


@contextmanager
def shown() -> Iterator[None]:
    """Print the messages of the package; inside another such context, once."""
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


@contextmanager
def exit_with_message(debug: bool = False) -> Iterator[None]:
    """Turn user errors and interruptions into a message and an exit code; not with ``debug``.

    The code is 2 for a :class:`UserError` or an error of the operating system (no permission, disk
    full), 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP (a closed terminal). Any other
    exception is a bug and propagates.
    """
    raiser = Raiser()
    with handled(raiser):
        try:
            yield
        except BaseException as error:
            raiser.is_ending = True
            time.sleep(0)  # a pending signal is handled here
            if raiser.number or isinstance(error, KeyboardInterrupt):
                # C++ and closed pipes turn an interruption into errors of other kinds
                stop_interrupted(error, raiser.number or signal.SIGINT, debug)
            if isinstance(error, UserError):
                stop(error, map(str, error.args), debug)
            if isinstance(error, OSError):
                # one from a data loading process has its traceback before the last line
                text = (str(error).strip() or repr(error)).splitlines()[-1]
                stop(error, ['; '.join([text, *getattr(error, '__notes__', [])])], debug)
            raise


def stop_interrupted(error: BaseException, number: int, debug: bool) -> NoReturn:
    """Report what was saved and how to resume, which are notes of the error."""
    if reports():
        lines = ['interrupted', *getattr(error, '__notes__', [])]
        with suppress(OSError):  # a terminal that was closed
            print('; '.join(lines), file=sys.stderr, flush=True)
    if debug:
        raise error
    raise SystemExit(128 + number) from None


def stop(error: Exception, lines: Iterable[str], debug: bool) -> NoReturn:
    if debug:
        raise error
    message = '\n'.join(map(escape, lines))
    print(f'error: {message}\n(--debug shows where it came from)', file=sys.stderr)
    raise SystemExit(EXIT_CODE) from None
