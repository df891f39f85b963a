"""Which files exist, and which of them are opened."""

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

from mmeffvit.utils.images import is_regular

T = TypeVar('T')


@dataclass(frozen=True)
class Sample:
    """Selection of the files to open.

    Args:
        num_images: Number of images per data set; None for all.
        seed: Random seed of the selection.
    """

    num_images: int | None = 50
    seed: int = 0

    def choose(self, items: Sequence[T]) -> list[T]:
        """The selected items, in their original order."""
        if self.num_images is None or self.num_images >= len(items):
            return list(items)
        chosen = random.Random(self.seed).sample(range(len(items)), self.num_images)
        return [items[i] for i in sorted(chosen)]


def make_lookup() -> Callable[[str | Path], bool | None]:
    """A function that checks whether files exist, listing every folder only once.

    It returns True for a regular file, False for anything else of that name, and None if nothing
    exists.
    """

    @cache
    def names(folder: str) -> dict[str, bool]:
        if not os.path.isdir(folder):
            return {}
        with os.scandir(folder) as entries:
            return {entry.name: is_regular(entry.path) for entry in entries}

    return lambda path: names(os.path.dirname(path) or '.').get(os.path.basename(path))
