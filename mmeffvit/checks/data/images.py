"""Files on the disk: which are there, and which of them are opened."""

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
    """Which files are opened.

    Args:
        num_images: How many of every data set; None takes all.
        seed: Of the choice.
    """

    num_images: int | None = 50
    seed: int = 0

    def choose(self, items: Sequence[T]) -> list[T]:
        """Some of the items, in their order."""
        if self.num_images is None or self.num_images >= len(items):
            return list(items)
        chosen = random.Random(self.seed).sample(range(len(items)), self.num_images)
        return [items[i] for i in sorted(chosen)]


def make_lookup() -> Callable[[str | Path], bool | None]:
    """A look at files that lists every folder once; a data set has many files in few.

    The answer is True for a regular file, False for anything else of that name (a pipe would be
    waited for), and None where there is nothing.
    """

    @cache
    def names(folder: str) -> dict[str, bool]:
        if not os.path.isdir(folder):
            return {}
        with os.scandir(folder) as entries:
            return {entry.name: is_regular(entry.path) for entry in entries}

    return lambda path: names(os.path.dirname(path) or '.').get(os.path.basename(path))
