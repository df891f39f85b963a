"""Keys of a released checkpoint become keys of ours by an ordered table."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from mmeffvit.errors import CheckpointError

# (pattern, replacement) rows, applied in order to every key; None drops the key on purpose
Table = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True)
class Layout:
    """How one release spells its keys."""

    name: str
    marker: str  # a pattern that keys of this layout match and those of the others do not
    table: Table


def rename(keys: Iterable[str], table: Table) -> tuple[dict[str, str], list[str]]:
    """Apply ``table`` to ``keys``.

    Returns:
        The new key of every kept key, and the keys dropped on purpose.

    Raises:
        CheckpointError: If two keys would become one.
    """
    renamed: dict[str, str] = {}
    dropped = []
    for key in keys:
        new_key = _rename_one(key, table)
        if new_key is None:
            dropped.append(key)
        elif new_key in renamed.values():
            raise CheckpointError(f'two keys become {new_key!r}, one of them {key!r}')
        else:
            renamed[key] = new_key
    return renamed, dropped


def _rename_one(key: str, table: Table) -> str | None:
    for pattern, replacement in table:
        if replacement is None:
            if re.search(pattern, key):
                return None
        else:
            key = re.sub(pattern, replacement, key)
    return key


def recognise(keys: Iterable[str], layouts: Iterable[Layout]) -> Layout | None:
    """Return the layout whose marker some of ``keys`` match, or None."""
    keys = list(keys)
    for layout in layouts:
        if any(re.search(layout.marker, key) for key in keys):
            return layout
    return None
