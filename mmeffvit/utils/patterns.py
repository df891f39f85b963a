"""Selecting modules by their names."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TypeVar

T = TypeVar('T')


def select(named: Mapping[str, T], patterns: Sequence[str]) -> dict[str, T]:
    """The items whose name, or a dotted part of it, matches a pattern; all if there is none.

    Args:
        named: Items by dotted name.
        patterns: Names; `*` and `?` are wildcards.

    Raises:
        ValueError: If a pattern matches no name.
    """
    for pattern in patterns:
        if not any(matches(name, pattern) for name in named):
            raise ValueError(f'no layer matches {pattern!r}; choose from {", ".join(named)}')
    if not patterns:
        return dict(named)
    return {n: item for n, item in named.items() if any(matches(n, p) for p in patterns)}


def outermost(named: Mapping[str, T]) -> dict[str, T]:
    """The items that are not inside another one, by their dotted names."""
    inside = {n for n in named for other in named if other and n.startswith(f'{other}.')}
    return {name: item for name, item in named.items() if name not in inside}


def matches(name: str, pattern: str) -> bool:
    parts = name.split('.')
    ends = range(1, len(parts) + 1)
    return any(fnmatchcase('.'.join(parts[i:j]), pattern) for j in ends for i in range(j))
