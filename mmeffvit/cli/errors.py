"""User errors and interruptions as one-line messages and exit codes, without a traceback."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NoReturn

from mmeffvit.errors import UserError
from mmeffvit.utils.text import escape

EXIT_CODE = 2
INTERRUPTED = 128 + signal.SIGINT
TERMINATED = 128 + signal.SIGTERM


class Terminated(KeyboardInterrupt):
    """SIGTERM, with the same cleanup as Ctrl-C."""


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
    before = signal.getsignal(signal.SIGTERM)
    if before is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, partial(raise_terminated, os.getpid()))
    try:
        yield
    except UserError as error:
        stop(error, str(error), debug)
    except OSError as error:
        # one from a data loading process has its traceback before the last line
        stop(error, str(error).strip().splitlines()[-1] if error.args else repr(error), debug)
    except KeyboardInterrupt as error:
        code = TERMINATED if isinstance(error, Terminated) else INTERRUPTED
        notes = getattr(error, '__notes__', [])  # what was saved, and how to resume
        print('\n'.join(['interrupted', *notes]), file=sys.stderr, flush=True)
        if debug:
            raise
        raise SystemExit(code) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def raise_terminated(owner: int, number: int, frame: Any) -> None:
    if os.getpid() == owner:
        raise Terminated
    # a forked process, as of a pool that is closed, ends as if there were no handler
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def stop(error: Exception, message: str, debug: bool) -> NoReturn:
    if debug:
        raise error
    one_line = ' '.join(message.split('\n')) if isinstance(error, OSError) else message.strip()
    print(f'error: {escape(one_line)}\n(--debug shows where it came from)', file=sys.stderr)
    raise SystemExit(EXIT_CODE) from None
