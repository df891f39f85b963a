"""Remap the keys of a released checkpoint to ours by an ordered table."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torch import Tensor

from mmeffvit.errors import CheckpointError

# (pattern, replacement) rows, applied in order to every key; None ignores the key
Table = tuple[tuple[str, str | None], ...]
# tables of several releases: both layers of a stem, counted with their norms and activations,
STEM: Table = (
    (r'^stem\.0\.', 'stem.0.conv.'),
    (r'^stem\.1\.', 'stem.0.norm.'),
    (r'^stem\.3\.', 'stem.1.conv.'),
    (r'^stem\.4\.', 'stem.1.norm.'),
)
# and a classifier with a second one, which was distilled: ignored by a backbone,
NO_CLASSIFIER: Table = ((r'^(norm|head|dist_head|head_dist)\.', None),)
# and part of a full model
CLASSIFIERS: Table = (
    (r'^head\.', 'head.classifier.fc.'),
    (r'^(dist_head|head_dist)\.', 'head.distilled.fc.'),
    (r'^norm\.', 'head.norm.'),
)


@dataclass(frozen=True)
class Layout:
    """The key layout of a release.

    Args:
        name: Its name in reports: 'official', 'timm', 'cvnets', 'mmdet 2'...
        marker: A pattern that only keys of this layout match.
        table: Table of the keys of the backbone.
        head: Table of the keys of neck and heads, if they are released too.
        prefix: Prefix of the backbone's keys in the file; all other keys are of the heads. Without
            a prefix (classifiers), the keys of the head are the ones that its table has.
        changes: (pattern of our key, change) of tensors whose order or shape differs here.
    """

    name: str
    marker: str
    table: Table
    head: Table | None = None
    prefix: str = ''
    changes: tuple[tuple[str, Callable[[Tensor], Tensor]], ...] = ()

    def is_of_head(self, key: str) -> bool:
        """Whether a key of the file belongs to the neck or a head."""
        if self.prefix:
            return not key.startswith(self.prefix)
        return any(re.search(pattern, key) for pattern, _ in self.head or ())

    def rename_model(self, keys: Iterable[str]) -> tuple[dict[str, str], list[str]]:
        """As :func:`rename`, for a full model, whose backbone has keys ``backbone.*`` here."""
        of_head, inside = [], []
        for key in keys:
            (of_head if self.is_of_head(key) else inside).append(key)
        renamed, dropped = rename(of_head, self.head or ())
        bare = {key.removeprefix(self.prefix): key for key in inside}
        of_backbone, dropped_inside = rename(bare, self.table)
        renamed |= {bare[old]: f'backbone.{new}' for old, new in of_backbone.items()}
        return renamed, dropped + [bare[key] for key in dropped_inside]

    def change(self, key: str, value: Tensor) -> Tensor:
        """``value`` in our order and shape."""
        change = next((f for pattern, f in self.changes if re.search(pattern, key)), None)
        return change(value) if change else value


def as_convolution(weight: Tensor) -> Tensor:
    """The weight of a linear layer, reshaped for a 1x1 convolution."""
    return weight[:, :, None, None] if weight.ndim == 2 else weight


def as_column(values: Tensor) -> Tensor:
    """One value per channel, (C,) or (C, 1), as (C, 1, 1)."""
    return values if values.ndim == 3 else values.reshape(-1, 1, 1)


def rename(keys: Iterable[str], table: Table) -> tuple[dict[str, str], list[str]]:
    """Apply ``table`` to ``keys``.

    Returns:
        The new key of every kept key, and the ignored keys.

    Raises:
        CheckpointError: If two keys would become one.
    """
    renamed: dict[str, str] = {}
    dropped, taken = [], set()
    for key in keys:
        new_key = _rename_one(key, table)
        if new_key is None:
            dropped.append(key)
        elif new_key in taken:
            raise CheckpointError(f'two keys become {new_key!r}, one of them {key!r}')
        else:
            renamed[key] = new_key
            taken.add(new_key)
    return renamed, dropped


def _rename_one(key: str, table: Table) -> str | None:
    for pattern, replacement in table:
        if replacement is None:
            if re.search(pattern, key):
                return None
        else:
            key = re.sub(pattern, replacement, key)
    return key


def recognize(keys: Iterable[str], layouts: Iterable[Layout]) -> Layout | None:
    """Return the layout whose marker some of ``keys`` match, or None."""
    keys = list(keys)
    found = (each for each in layouts if any(re.search(each.marker, key) for key in keys))
    return next(found, None)
