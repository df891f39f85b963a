"""Files on the disk: which are there, and whether they decode."""

import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

import numpy as np
from PIL import Image
from rich.console import Console
from rich.progress import track

T = TypeVar('T')
R = TypeVar('R')

ORIENTATION = 0x0112  # the EXIF tag
TURNED = (5, 6, 7, 8)  # its values for a quarter turn


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


class Unreadable(Exception):  # noqa: N818  it is an answer, not a fault of the program
    """An image that does not decode to its end."""


def open_image(path: Path) -> Image.Image:
    if not path.is_file():  # a pipe would be waited for
        raise FileNotFoundError('there is no regular file')
    return Image.open(path)


def read_size(path: Path) -> tuple[int, int]:
    """Height and width in pixels, as the hosts read the image: turned as its EXIF says.

    Raises:
        Unreadable: If it does not decode to its end.
    """
    try:
        with open_image(path) as image:
            image.load()
            width, height = image.size
            turned = image.getexif().get(ORIENTATION) in TURNED
    except Exception as error:  # whatever the decoders raise
        raise Unreadable(f'{path} ({error})') from error
    return (width, height) if turned else (height, width)


def read_labels(path: Path) -> np.ndarray:
    """The values of a label map; of one with a palette its indices: (H, W) or (H, W, channels).

    Raises:
        Unreadable: If it does not decode to its end.
    """
    try:
        with open_image(path) as image:
            return np.asarray(image)
    except Exception as error:  # whatever the decoders raise
        raise Unreadable(f'{path} ({error})') from error


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
            return {entry.name: is_regular(entry) for entry in entries}

    return lambda path: names(os.path.dirname(path) or '.').get(os.path.basename(path))


def is_regular(entry: os.DirEntry) -> bool:
    try:
        return entry.is_file()
    except OSError:  # a loop of links
        return False


def progress(items: Iterable[T], description: str, total: int) -> Iterator[T]:
    """Go through the items behind a progress bar on standard error."""
    console = Console(stderr=True)
    return track(
        items,
        description,
        total=total,
        console=console,
        transient=True,
        disable=not console.is_terminal,  # a file would get empty lines
    )


def in_threads(function: Callable[[T], R], items: Sequence[T], description: str) -> Iterator[R]:
    """Results in the order of the items; decoding lets other threads run."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        yield from progress(pool.map(function, items), description, len(items))
