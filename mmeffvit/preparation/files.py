"""Reading what users' tools write: text in several encodings, and images by name."""

import codecs
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

from mmeffvit.errors import UserError
from mmeffvit.utils.images import is_image
from mmeffvit.utils.reading import read_file

from .faults import BYTE_ORDER_MARK, FILE_BROKEN, LINE_ENDS, NOT_UTF8, Findings
from .records import named_split


def read_text(path: Path, findings: Findings) -> str | None:
    """The text of a file, without a byte order mark; None, and a finding, if it has none."""
    try:
        content = read_file(path)
    except UserError as error:
        findings.add(FILE_BROKEN, error)
        return None
    if content.startswith(codecs.BOM_UTF8):
        findings.add(BYTE_ORDER_MARK, path)
    if b'\r\n' in content:
        findings.add(LINE_ENDS, path)
    try:
        return content.decode('utf-8-sig')
    except UnicodeDecodeError as error:
        line = content.count(b'\n', 0, error.start) + 1
        findings.add(NOT_UTF8, f'{path}, line {line}')
        return None


def images_below(folder: Path) -> list[Path]:
    """All images in a folder and its sub-folders, sorted; hidden folders are not entered."""
    found = []
    for parent, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith('.'))
        paths = (Path(parent, name) for name in names if not name.startswith('.'))
        found += filter(is_image, paths)
    return sorted(found)


class ImageFinder:
    """Finds images by the names that annotations have for them.

    Args:
        root: The data set; its sub-folders are searched where a name is nowhere else.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    @cached_property
    def _by_name(self) -> dict[str, list[Path]]:
        found = defaultdict(list)
        for path in images_below(self.root):
            for key in {path.name, path.stem}:
                found[key].append(path)
        return found

    def find(self, name: str, folders: Iterable[Path], split: str | None = None) -> list[Path]:
        """The image of a name: none, one, or several that it may be.

        Args:
            name: With or without ending, perhaps with sub-folders.
            folders: Where it should be; the first that has it wins.
            split: That it is in: images in folders of others are not it.
        """
        name = name.replace('\\', '/')
        for folder in folders:
            if (folder / name).is_file():
                return [folder / name]
        found = [
            path
            for path in self._by_name.get(name.rpartition('/')[2], [])
            if split is None or named_split(path.parent, self.root) in (None, split)
        ]
        nearer = [path for path in found if path.as_posix().endswith(f'/{name}')]
        return nearer or found


def read_list(path: Path, findings: Findings) -> Iterator[str]:
    """The lines of a text file that are not empty."""
    for line in (read_text(path, findings) or '').splitlines():
        if line.strip():
            yield line.strip()
