"""Mistakes a user can mend end in one message and exit code 2, not in a traceback."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from mmeffvit.errors import UserError

EXIT_CODE = 2


@contextmanager
def exit_with_message(debug: bool = False) -> Iterator[None]:
    """Turn a mistake of the user into its message on standard error and exit code 2.

    Args:
        debug: Let the exception through, with its traceback.

    Raises:
        SystemExit: With code 2, in place of the exception. Any other exception is a fault of the
            program and passes.
    """
    try:
        yield
    except (UserError, FileNotFoundError) as error:
        if debug:
            raise
        message = str(error).strip()
        if isinstance(error, FileNotFoundError):
            # one from a data loading process has its traceback before the last line
            message = message.splitlines()[-1]
        print(f'error: {message}\n(--debug shows where it came from)', file=sys.stderr)
        raise SystemExit(EXIT_CODE) from None
