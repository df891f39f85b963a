"""Files of a dataset: text files, images by name, and samples of them."""

import csv
import io
import os
import random
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TypeVar
from urllib.parse import unquote

from mmeffvit.errors import UserError
from mmeffvit.utils.files import LOCK, read_file
from mmeffvit.utils.images import SUFFIXES, is_image
from mmeffvit.utils.text import listed

from . import faults
from .faults import Fault, Findings
from .records import named_split

T = TypeVar('T')


def read_text(path: Path, findings: Findings) -> str | None:
    """The text of a file without byte order mark; None, and a finding, if it is not text."""
    try:
        content = read_file(path)
    except UserError as error:
        findings.add(faults.FILE_BROKEN, error)
        return None
    try:
        return content.decode('utf-8-sig')
    except UnicodeDecodeError as error:
        line = content.count(b'\n', 0, error.start) + 1
        findings.add(faults.NOT_UTF8, f'{path}, line {line}')
        return None


def require_text(path: Path, findings: Findings) -> str:
    """The text of a file that many images depend on.

    Raises:
        UserError: If it is not text.
    """
    text = read_text(path, findings)
    if text is None:
        fix = f': {faults.NOT_UTF8.fix}' if faults.NOT_UTF8 in findings.counts else ''
        raise UserError(f'{path} cannot be read as text in UTF-8{fix}')
    return text


def read_rows(path: Path, findings: Findings, delimiter: str = ',') -> list[dict[str, str]]:
    """The rows of a table with a heading.

    Raises:
        UserError: If it is not one.
    """
    text = io.StringIO(require_text(path, findings))
    try:
        return list(csv.DictReader(text, delimiter=delimiter))
    except csv.Error as error:
        raise UserError(f'{path} cannot be read as CSV: {error}') from error


def images_below(folder: Path) -> list[Path]:
    """All images in a folder and its sub-folders, sorted; see :func:`files_below`."""
    return list(filter(is_image, files_below(folder)))


def files_below(folder: Path, *, hidden: bool = False) -> list[Path]:
    """All files in a folder and its sub-folders, sorted; links are followed.

    Those whose names begin with a dot are left out, unless ``hidden``, and work dirs of runs.
    """
    found = []
    seen: set[str] = set()  # symbolic links may form a cycle
    for parent, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith('.'))
        real = os.path.realpath(parent)
        if real in seen or (LOCK in names and parent != os.fspath(folder)):
            folders.clear()
            continue
        seen.add(real)
        found += (Path(parent, name) for name in names if hidden or name[0] != '.')
    return sorted(found)


class ImageFinder:
    """Finds images by the names that annotations have for them.

    The sub-folders of the ``root`` are searched where a name is nowhere else.
    """

    def __init__(self, root: Path, findings: Findings) -> None:
        self.root = Path(os.path.normpath(root))
        self.findings = findings

    @cached_property
    def _by_spelling(self) -> dict[str, list[Path]]:
        found = defaultdict(list)
        for path in images_below(self.root):
            for name in (path.name, path.stem):
                found[spelling(name)].append(path)
        return found

    @cached_property
    def _splits(self) -> set[str | None]:
        """The splits that have a folder with images."""
        folders = {path.parent for paths in self._by_spelling.values() for path in paths}
        return {named_split(folder, self.root) for folder in folders} - {None}

    def find(self, name: str, folders: Iterable[Path], split: str | None = None) -> list[Path]:
        """The image of a name: none, one, or several that it may be.

        ``folders`` are searched first, for the name as it is, and the first match is used. Images
        in the folders of other splits are ignored if ``split`` has its own. Of several images, the
        one counts whose folder is called like the first of ``folders``.
        """
        name = name.replace('\\', '/')
        folders = list(folders)
        inside = os.path.join(self.root, '')
        for folder in folders:
            # without `..`, which may lead out of the dataset; text is faster than Path
            path = os.path.normpath(os.path.join(folder, name))
            if path.startswith(inside) and os.path.isfile(path):
                return [Path(path)]
        last = name.rpartition('/')[2]
        stem, _, suffix = spelling(last).rpartition('.')
        same = self._by_spelling.get(spelling(last), [])
        found = self._of_split([p for p in same if last in (p.name, p.stem)], split)
        if not found:
            if not same and f'.{suffix}' in SUFFIXES:
                same = self._by_spelling.get(stem, [])
            found = self._of_split(same, split)
            if len(found) == 1:
                self.findings.add(faults.NAME_SPELLED, f'{name}: {found[0]}')
        nearer = [path for path in found if path.as_posix().endswith(f'/{name}')]
        nearer = nearer or [path for path in found if path.parent in folders]
        nearer = nearer or [p for p in found if p.parent.name in {f.name for f in folders[:1]}]
        return nearer or found

    def _of_split(self, paths: Iterable[Path], split: str | None) -> list[Path]:
        """The images that are not in folders of other splits; all if the split has no folder."""
        if split not in self._splits:
            return list(paths)
        return [p for p in paths if named_split(p.parent, self.root) in (None, split)]

    def report(self, name: str, found: list[Path], place: object) -> None:
        """Add the fault of a name for which :meth:`find` does not return exactly one image."""
        several = f' is one of {listed(found)}' if found else ''
        self.findings.add(self.fault(name, found), f'{place}: {name}{several}')

    def fault(self, name: str, found: list[Path]) -> Fault:
        if found:
            return faults.IMAGE_AMBIGUOUS
        path = PurePosixPath(name.replace('\\', '/'))
        is_outside = path.is_absolute() or '..' in path.parts
        return faults.IMAGE_OUTSIDE if is_outside else faults.IMAGE_MISSING


def spelling(name: str) -> str:
    """What names that differ only in Unicode's forms, case or escapes have in common."""
    return unicodedata.normalize('NFC', unquote(name)).casefold()


def read_list(path: Path, findings: Findings) -> Iterator[str]:
    """The lines of a text file that are not empty; nothing, and an error, if it is not text."""
    text = read_text(path, Findings())
    if text is None:
        findings.add(faults.LIST_BROKEN, path)
    for line in (text or '').splitlines():
        if line.strip():
            yield line.strip()


def names_in(text: str, path: Path) -> list[str]:
    """The names of classes in the lines of a file.

    Raises:
        UserError: If a line before a name is empty, so that its number is not known.
    """
    names = [line.strip() for line in text.rstrip().splitlines()]
    if '' in names:
        raise UserError(
            f'{path}, line {names.index("") + 1} is empty, and lines number the classes: remove '
            'it, or write a name'
        )
    return names


@dataclass(frozen=True)
class Sample:
    """Selection of the files to open."""

    num_images: int | None = 50  # number of images per dataset; None for all
    seed: int = 0  # random seed of the selection

    def choose(self, items: Sequence[T]) -> list[T]:
        """The selected items, in their original order."""
        if self.num_images is None or self.num_images >= len(items):
            return list(items)
        chosen = random.Random(self.seed).sample(range(len(items)), self.num_images)
        return [items[i] for i in sorted(chosen)]


def find_images(folder: str | os.PathLike) -> list[Path]:
    """All images in a folder and its subfolders, sorted.

    Raises:
        UserError: If the folder does not exist or has no images.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f'{folder} is not a folder; give one with images')
    images = list(filter(os.path.isfile, images_below(folder)))
    if not images:
        raise UserError(f'{folder} has no image ({", ".join(SUFFIXES)})')
    return images
