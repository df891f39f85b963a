"""Which images and videos the arguments of a command line stand for."""

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from glob import glob
from pathlib import Path

from mmeffvit.errors import UserError
from mmeffvit.utils.images import SUFFIXES, is_image

VIDEOS = ('.mp4', '.avi', '.mov', '.mkv', '.webm', '.m4v', '.mpg', '.mpeg')


@dataclass(frozen=True)
class Source:
    """One image or video.

    Args:
        path: The file.
        name: What its results are called: a path relative to the folder of all results.
    """

    path: Path
    name: Path

    @property
    def is_video(self) -> bool:
        return self.path.suffix.lower() in VIDEOS


@dataclass
class Inputs:
    """What was found.

    Args:
        sources: Images and videos, each once, in the order of the arguments.
        absent: Arguments that stand for nothing that can be read, with the reason.
    """

    sources: list[Source] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)


def find_inputs(arguments: Iterable[str]) -> Inputs:
    """Look for files, in folders with all folders below, and for what quoted globs match.

    Files in a folder that are neither images nor videos are left out, and their types are printed.

    Args:
        arguments: Files, folders and globs.

    Raises:
        UserError: If nothing is found.
    """
    inputs, others = Inputs(), Counter()
    found: dict[Path, Path] = {}
    for argument in arguments:
        matches = [argument] if os.path.exists(argument) else sorted(glob(argument, recursive=True))
        if not matches:
            inputs.absent.append(f'{argument}: there is no such file or folder')
        for match in map(Path, matches):
            if not match.is_dir() and not is_known(match):
                inputs.absent.append(f'{match}: of unknown type {match.suffix or "(none)"!r}')
            for path, name in walk(match, others):
                found.setdefault(path.resolve(), name)
    if others:
        types = ', '.join(f'{count} of type {kind or "(none)"}' for kind, count in others.items())
        print(f'left out, neither image nor video: {types}', file=sys.stderr)
    if not found:
        raise UserError(
            f'no image or video in {", ".join(arguments)}; images end in {", ".join(SUFFIXES)}, '
            f'videos in {", ".join(VIDEOS)}'
        )
    inputs.sources = [Source(path, name) for path, name in distinct(found).items()]
    return inputs


def is_known(path: Path) -> bool:
    return is_image(path) or path.suffix.lower() in VIDEOS


def walk(path: Path, others: Counter[str]) -> Iterator[tuple[Path, Path]]:
    """A file under its own name, or the files of a folder under their names in it."""
    if not path.is_dir():
        if is_known(path):
            yield path, Path(path.name)
        return
    for file in sorted(path.rglob('*')):
        if is_known(file):
            yield file, file.relative_to(path)
        elif file.is_file():
            others[file.suffix] += 1


def distinct(found: dict[Path, Path]) -> dict[Path, Path]:
    """The same names, or paths below the common folder where two files would share one."""
    if len(set(found.values())) == len(found):
        return found
    common = os.path.commonpath([path.parent for path in found])
    return {path: path.relative_to(common) for path in found}
