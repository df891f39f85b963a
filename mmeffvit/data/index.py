"""What is known of the images of a large dataset, kept for the next time that it is opened."""

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import astuple
from hashlib import blake2b
from pathlib import Path
from typing import Any

from mmeffvit.errors import UserError
from mmeffvit.utils.files import cache_folder, read_json, stamp, write_file
from mmeffvit.utils.images import ImageFacts, Unreadable
from mmeffvit.version import __version__

LEAST = 1000  # images; fewer are inspected in seconds
RECENT = 2 * 10**9  # nanoseconds, within which another change may leave the time as it is
# size and time of a file; height and width, orientation, mode, bits, digest, truncation
TYPES = [int, int, int, int, int, str, int, str, bool]


class ImageIndex:
    """Inspects images, but for those that have not changed since the dataset was last opened.

    The index is JSON in the user's cache, if there are many images in the dataset at ``root``. A
    row counts while the path, the size and the time of its file are the same; all are computed
    again by another version or another inspection.
    """

    def __init__(self, root: Path, inspect: Callable[[Path], ImageFacts], num_images: int) -> None:
        self.inspect = inspect
        self.about = [__version__, inspect.__name__]
        name = blake2b(os.fsencode(root.absolute()), digest_size=16).hexdigest()
        folder = cache_folder() if num_images >= LEAST else None
        self.path = folder and folder / 'data' / f'{name}.json'
        self.known = self._read()
        self.rows: dict[str, list[Any]] = {}

    def _read(self) -> dict[str, Any]:
        content = None
        with suppress(OSError, UserError):
            if self.path is not None and self.path.is_file():
                content = read_json(self.path)
        is_own = isinstance(content, dict) and content.get('about') == self.about
        rows = content.get('rows') if is_own else None
        return rows if isinstance(rows, dict) else {}

    def facts(self, path: Path) -> ImageFacts | Unreadable:
        """What is known of an image, or why it cannot be decoded."""
        try:
            size_and_time = list(stamp(path))
            found = facts_in(self.known.get(str(path)), size_and_time) or self.inspect(path)
        except Unreadable as fault:
            return fault
        except OSError as error:
            return Unreadable(f'{path} ({error})')
        if self.path is not None and time.time_ns() - size_and_time[1] > RECENT:
            size, *middle, digest, is_cut = astuple(found)
            self.rows[str(path)] = [*size_and_time, *size, *middle, digest.hex(), is_cut]
        return found

    def write(self) -> None:
        """Write the index, unless it is the same; a cache that cannot be written is not needed."""
        if self.path is not None and self.rows != self.known:
            with suppress(OSError, UserError):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                write_file(self.path, json.dumps(dict(about=self.about, rows=self.rows)))


def facts_in(row: Any, stamp: list[int]) -> ImageFacts | None:
    """The facts of a row; None if it is of another file, or none."""
    if not isinstance(row, list) or list(map(type, row)) != TYPES or row[:2] != stamp:
        return None
    height, width, orientation, mode, bits, digest, is_cut = row[2:]
    try:
        return ImageFacts((height, width), orientation, mode, bits, bytes.fromhex(digest), is_cut)
    except ValueError:
        return None
