"""Files of others: regular ones alone, since a pipe or a device would be waited for."""

import json
import os
import stat
from pathlib import Path
from typing import Any

from mmeffvit.errors import UserError


def read_file(path: str | os.PathLike) -> bytes:
    """The content of a regular file.

    Raises:
        UserError: If there is none, or it cannot be read.
    """
    path = Path(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UserError(f'{str(path)!r} is no regular file, but a folder, a pipe or a device')
        return path.read_bytes()
    except FileNotFoundError:
        raise UserError(f'{str(path)!r} does not exist') from None
    except (OSError, ValueError) as error:  # no permission, a loop of links, a name with a zero
        raise UserError(f'{str(path)!r} cannot be read: {error}') from error


def read_json(path: str | os.PathLike) -> Any:
    """The content of a JSON file.

    Raises:
        UserError: If it cannot be read, or holds no JSON.
    """
    return parse_json(read_file(path), str(path))


def parse_json(text: str | bytes, source: str) -> Any:
    """The content of a text in JSON.

    Raises:
        UserError: If it is none; the message begins with ``source``.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise UserError(f'{source} cannot be read as JSON: it is nested too deep') from None
    except ValueError as error:  # of the encoding as well
        raise UserError(f'{source} is no JSON: {error}') from error
