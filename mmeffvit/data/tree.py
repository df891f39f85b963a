"""The files of a dataset, listed once for every format."""

import os
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from heapq import nlargest
from pathlib import Path
from typing import Any

from mmeffvit.errors import UserError
from mmeffvit.utils.files import read_file
from mmeffvit.utils.images import is_image
from mmeffvit.utils.text import counted

from .files import files_below, images_below

SAMPLED = 3  # files of one suffix and folder that are looked into, where there are many
MANY = 20
HEAD = 2**20  # bytes that tell the format of a file
TEXTS = ('.xml', '.json', '.txt', '.csv', '.jsonl', '.odgt', '.manifest', '.geojson', '.ndjson')
ANNOTATIONS = ('annotations', 'annotation', 'ann', 'labels')  # folders beside those of images


@dataclass(frozen=True)
class Match:
    """What a format found."""

    place: tuple[Any, ...]  # the files, as the arguments of its ``read``
    why: str  # what it was recognized by


class Tree:
    """A folder with its files, or one file of annotations with the folder around it."""

    def __init__(self, path: Path, format: str | None = None) -> None:
        self.given = None if path.is_dir() else path
        self.format = format  # the one that the user names, if any
        self.root = path if self.given is None else root_around(path)
        self._heads: dict[Path, bytes] = {}

    @cached_property
    def files(self) -> list[Path]:
        """All files below, sorted."""
        return files_below(self.root)

    @cached_property
    def _by_suffix(self) -> dict[str, list[Path]]:
        found = defaultdict(list)
        for path in self.files:
            found[path.suffix.lower()].append(path)
        return found

    def of(self, *suffixes: str) -> list[Path]:
        """The annotation files of these suffixes: the given one alone, or all."""
        if self.given is not None:
            return [self.given] if self.given.suffix.lower() in suffixes else []
        return [path for suffix in suffixes for path in self._by_suffix[suffix]]

    def named(self, *names: str) -> list[Path]:
        """The files of these names, which need not be the given one."""
        return [p for n in names for p in self._by_suffix[Path(n).suffix] if p.name.lower() == n]

    @cached_property
    def images(self) -> list[Path]:
        return list(filter(is_image, self.files))

    @cached_property
    def folders(self) -> dict[Path, list[Path]]:
        """The images by folder."""
        found = defaultdict(list)
        for path in self.images:
            found[path.parent].append(path)
        return found

    @cached_property
    def filled(self) -> set[Path]:
        """The folders with images in them or below."""
        return {folder for path in self.folders for folder in (path, *path.parents)}

    def sample(self, *suffixes: str) -> list[Path]:
        """Some annotation files of every folder: of many, the first and the largest ones."""
        by_folder = defaultdict(list)
        for path in self.of(*suffixes):
            by_folder[path.parent].append(path)
        found: dict[Path, None] = {}
        for paths in by_folder.values():
            some = paths
            if len(paths) > MANY:  # the first may be of images without objects
                some = [*paths[:SAMPLED], *nlargest(SAMPLED, paths, bytes_of)]
            found |= dict.fromkeys(some)
        return list(found)

    def like(self, test: Callable[[Path], object], *suffixes: str) -> list[Path]:
        """All annotation files with these suffixes, if one of a sample passes a test."""
        return self.of(*suffixes) if any(map(test, self.sample(*suffixes))) else []

    def passing(self, test: Callable[[Path], object], *suffixes: str) -> list[Path]:
        """The annotation files that pass a test; all are tested if one of a sample passes."""
        return list(filter(test, self.like(test, *suffixes)))

    def match(self, paths: list[Path], noun: str, what: str) -> Match | None:
        """A match of these files, by their number and what they have; None without any."""
        return Match((self, paths), f'{counted(len(paths), noun)} {what}') if paths else None

    def head(self, path: Path) -> bytes:
        """The beginning of a file; empty if it cannot be read."""
        if path not in self._heads:
            self._heads[path] = b''
            with suppress(OSError):
                if os.path.isfile(path):
                    with path.open('rb') as file:
                        self._heads[path] = file.read(HEAD)
        return self._heads[path]

    def content(self, path: Path) -> bytes:
        """All of a file; empty if it cannot be read."""
        head = self.head(path)
        if len(head) < HEAD:
            return head
        try:
            return read_file(path)
        except UserError:
            return b''


def bytes_of(path: Path) -> int:
    """Bytes of a file; 0 if it cannot be read."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def root_around(path: Path) -> Path:
    """The folder of the dataset that one file of annotations belongs to."""
    folder = path.parent
    if folder.name.lower() in ANNOTATIONS and not images_below(folder):
        return folder.parent
    return folder
