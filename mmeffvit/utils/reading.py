"""Reading untrusted files: regular files only, since a pipe or a device could block."""

import json
import os
import stat
from pathlib import Path
from typing import Any

from mmeffvit.errors import UserError


def read_file(path: str | os.PathLike) -> bytes:
    """The content of a regular file.

    Raises:
        UserError: If it does not exist or cannot be read.
    """
    path = Path(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UserError(
                f'{str(path)!r} is not a regular file, but a folder, a pipe or a device'
            )
        return path.read_bytes()
    except FileNotFoundError:
        raise UserError(f'{str(path)!r} does not exist') from None
    except (
        OSError,
        ValueError,
    ) as error:  # no permission, a cycle of links, a name with a null byte
        raise UserError(f'{str(path)!r} cannot be read: {error}') from error


def read_json(path: str | os.PathLike) -> Any:
    """The content of a JSON file.

    Raises:
        UserError: If it cannot be read, or is not valid JSON.
    """
    return parse_json(read_file(path), str(path))


def parse_json(text: str | bytes, source: str) -> Any:
    """Parse JSON.

    Raises:
        UserError: If it is invalid; the message begins with ``source``.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise UserError(f'{source} cannot be read as JSON: it is nested too deeply') from None
    except ValueError as error:  # includes encoding errors
        raise UserError(f'{source} is not valid JSON: {error}') from error
