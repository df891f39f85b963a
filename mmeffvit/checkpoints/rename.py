"""Keys of a released checkpoint become keys of ours by an ordered table."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from torch import Tensor

from mmeffvit.errors import CheckpointError

# (pattern, replacement) rows, applied in order to every key; None drops the key on purpose
Table = tuple[tuple[str, str | None], ...]
L = TypeVar('L', bound='Layout')


@dataclass(frozen=True)
class Layout:
    """How one release spells its keys."""

    name: str
    marker: str  # a pattern that keys of this layout match and those of the others do not
    table: Table


@dataclass(frozen=True)
class ModelLayout(Layout):
    """The keys of a released detector or segmentor.

    ``table`` is for the keys outside the backbone.
    """

    prefix: str  # of the backbone's keys
    backbone: Table  # for these, without their prefix
    # (pattern of our key, change): values that are in another order there
    reordered: tuple[tuple[str, Callable[[Tensor], Tensor]], ...] = ()

    def rename(self, keys: Iterable[str]) -> tuple[dict[str, str], list[str]]:
        """As :func:`rename`, for a whole model; the backbone's keys start with ``backbone.`` here.

        Raises:
            CheckpointError: If two keys would become one.
        """
        keys = list(keys)
        inside = [key.removeprefix(self.prefix) for key in keys if key.startswith(self.prefix)]
        outside = [key for key in keys if not key.startswith(self.prefix)]
        renamed, dropped = rename(outside, self.table)
        of_backbone, dropped_inside = rename(inside, self.backbone)
        renamed |= {self.prefix + old: f'backbone.{new}' for old, new in of_backbone.items()}
        return renamed, dropped + [self.prefix + key for key in dropped_inside]

    def order(self, key: str, value: Tensor) -> Tensor | None:
        """``value`` in our order; None if that of the release is the same."""
        change = next((f for pattern, f in self.reordered if re.search(pattern, key)), None)
        return change(value) if change else None

    def shaped(self, key: str, value: Tensor) -> Tensor:
        """``value`` in our shape, which these releases have."""
        return value


def as_convolution(weight: Tensor) -> Tensor:
    """The weight of a linear layer as that of a 1x1 convolution."""
    return weight[:, :, None, None] if weight.ndim == 2 else weight


def as_column(values: Tensor) -> Tensor:
    """One value per channel, (C,) or (C, 1), as (C, 1, 1)."""
    return values.reshape(-1, 1, 1)


@dataclass(frozen=True)
class ClassifierLayout(Layout):
    """The keys of a released classifier: those of the backbone, and few of its head.

    As a plain :class:`Layout` it is that of the backbone alone.
    """

    head: Table  # from their keys to ours below ``head.``
    # (pattern of our key, change): values that have another shape there
    shapes: tuple[tuple[str, Callable[[Tensor], Tensor]], ...] = ()

    def rename(self, keys: Iterable[str]) -> tuple[dict[str, str], list[str]]:
        """As :func:`rename`, for a whole classifier.

        Raises:
            CheckpointError: If two keys would become one.
        """
        of_head = [key for key in keys if self.is_of_head(key)]
        renamed, _ = rename(of_head, self.head)
        backbone, dropped = rename([key for key in keys if key not in renamed], self.table)
        renamed = {old: f'head.{new}' for old, new in renamed.items()}
        return renamed | {old: f'backbone.{new}' for old, new in backbone.items()}, dropped

    def is_of_head(self, key: str) -> bool:
        return any(re.search(pattern, key) for pattern, _ in self.head)

    def shaped(self, key: str, value: Tensor) -> Tensor:
        """``value`` in our shape."""
        change = next((f for pattern, f in self.shapes if re.search(pattern, key)), None)
        return value if change is None else change(value)

    def order(self, key: str, value: Tensor) -> None:
        """The order of values is ours in these releases."""


def rename(keys: Iterable[str], table: Table) -> tuple[dict[str, str], list[str]]:
    """Apply ``table`` to ``keys``.

    Returns:
        The new key of every kept key, and the ignored keys.

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


def recognize(keys: Iterable[str], layouts: Iterable[L]) -> L | None:
    """Return the layout whose marker some of ``keys`` match, or None."""
    keys = list(keys)
    for layout in layouts:
        if any(re.search(layout.marker, key) for key in keys):
            return layout
    return None
