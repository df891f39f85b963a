"""User errors and interruptions as one-line messages and exit codes, without a traceback."""

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from mmeffvit.errors import UserError
from mmeffvit.utils.interrupts import Raiser, handled, reports
from mmeffvit.utils.text import escape

EXIT_CODE = 2


@contextmanager
def exit_with_message(debug: bool = False) -> Iterator[None]:
    """Turn user errors and interruptions into a message and an exit code.

    Args:
        debug: Let the exception through, with its traceback.

    Raises:
        SystemExit: With code 2 in place of a :class:`UserError` or of an error of the operating
            system (no permission, disk full), 130 after Ctrl-C, 143 after SIGTERM. Any other
            exception is a bug and propagates.
    """
    raiser = Raiser()
    with handled(raiser):
        try:
            yield
        except BaseException as error:
            raiser.is_ending = True
            time.sleep(0)  # a signal that is pending is handled here
            if raiser.number or isinstance(error, KeyboardInterrupt):
                # C++ and closed pipes turn an interruption into errors of other kinds
                stop_interrupted(error, raiser.number or signal.SIGINT, debug)
            if isinstance(error, UserError):
                stop(error, str(error), debug)
            if isinstance(error, OSError):
                # one from a data loading process has its traceback before the last line
                message = str(error).strip().splitlines()[-1] if error.args else repr(error)
                stop(error, message, debug)
            raise


def stop_interrupted(error: BaseException, number: int, debug: bool) -> NoReturn:
    """Report what was saved, and how to resume, which the notes of the error say."""
    if reports():
        lines = ['interrupted', *getattr(error, '__notes__', [])]
        print('; '.join(lines), file=sys.stderr, flush=True)
    if debug:
        raise error
    raise SystemExit(128 + number) from None


def stop(error: Exception, message: str, debug: bool) -> NoReturn:
    if debug:
        raise error
    one_line = ' '.join(message.split('\n')) if isinstance(error, OSError) else message.strip()
    print(f'error: {escape(one_line)}\n(--debug shows where it came from)', file=sys.stderr)
    raise SystemExit(EXIT_CODE) from None
