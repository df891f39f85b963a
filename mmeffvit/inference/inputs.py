"""Images and videos given by command-line arguments."""

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from glob import glob, has_magic
from pathlib import Path

from mmeffvit.errors import UserError
from mmeffvit.utils.images import IRREGULAR, SUFFIXES, is_image, is_regular

KEPT = ('.jpg', '.jpeg', '.png')  # suffixes that visualizations keep
VIDEOS = ('.mp4', '.avi', '.mov', '.mkv', '.webm', '.m4v', '.mpg', '.mpeg')


@dataclass(frozen=True)
class Source:
    """One image or video.

    Args:
        path: The file.
        name: Its name in results: a path relative to the output folder.
        picture: The unique name of its visualization: its own name, if this type can be written.
        labels: The unique name of its label map; for a video, of the folder of its label maps.
    """

    path: Path
    name: Path
    picture: Path
    labels: Path

    @property
    def is_video(self) -> bool:
        return self.path.suffix.lower() in VIDEOS


@dataclass
class Inputs:
    """The files found for the arguments.

    Args:
        sources: Images and videos without duplicates, in the order of the arguments.
        unreadable: Arguments and files that cannot be read, with the reason.
    """

    sources: list[Source] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)


def find_inputs(arguments: Iterable[str]) -> Inputs:
    """Find files, files in folders (recursively), and matches of quoted globs.

    Other files in folders are ignored, and their types are printed.

    Args:
        arguments: Files, folders and globs.

    Raises:
        UserError: If nothing is found.
    """
    arguments, inputs, others = list(arguments), Inputs(), Counter()
    found: dict[Path, Path] = {}
    for argument in arguments:
        # a cycle of links does not "exist"
        exists = os.path.lexists(argument)
        matches = [argument] if exists else sorted(glob(argument, recursive=True))
        if not matches:
            inputs.unreadable.append(f'{argument}: no such file or folder')
        for match in map(Path, matches):
            if not match.is_dir() and not is_known(match):
                inputs.unreadable.append(f'{match}: unknown type {match.suffix or "(none)"!r}')
            for path, name in walk(match, others):
                if is_regular(path):
                    found.setdefault(path.resolve(), name)
                else:
                    inputs.unreadable.append(f'{path}: {IRREGULAR}')
    if others:
        types = ', '.join(f'{count} of type {kind or "(none)"}' for kind, count in others.items())
        print(f'ignored, neither image nor video: {types}', file=sys.stderr)
    if not found:
        raise UserError(
            f'no image or video in {", ".join(arguments)}; images end in {", ".join(SUFFIXES)}, '
            f'videos in {", ".join(VIDEOS)}'
        )
    inputs.sources = make_sources(make_unique(found))
    return inputs


def is_input(argument: str) -> bool:
    """Whether an argument is an image, a video, a folder or a glob."""
    path = Path(argument)
    return '://' not in argument and (is_known(path) or path.is_dir() or has_magic(argument))


def is_known(path: Path) -> bool:
    return is_image(path) or path.suffix.lower() in VIDEOS


def walk(path: Path, others: Counter[str]) -> Iterator[tuple[Path, Path]]:
    """A file with its name, or the files of a folder with their relative paths."""
    if not path.is_dir():
        if is_known(path):
            yield path, Path(path.name)
        return
    for file in sorted(path.rglob('*')):
        if is_known(file):
            yield file, file.relative_to(path)
        elif file.is_file():
            others[file.suffix] += 1


def result_names(
    names: Sequence[Path], preferred: Sequence[Path], suffixes: Sequence[str]
) -> list[Path]:
    """Unique names for the results of the inputs.

    Args:
        names: Names of the inputs, relative to the output folder.
        preferred: Preferred names, used if they are unique.
        suffixes: Suffixes of the results, otherwise appended to the names of the inputs.
    """
    if len(set(preferred)) == len(preferred):
        return list(preferred)
    results: dict[Path, None] = {}
    for name, suffix in zip(names, suffixes, strict=True):
        result, number = name.with_name(f'{name.name}{suffix}'), 1
        while result in results:
            number += 1
            result = name.with_name(f'{name.name}_{number}{suffix}')
        results[result] = None
    return list(results)


def make_sources(found: dict[Path, Path]) -> list[Source]:
    names = list(found.values())
    videos = [name.suffix.lower() in VIDEOS for name in names]
    suffixes = ['.mp4' if video else '.png' for video in videos]
    pictures = [
        name if name.suffix.lower() in KEPT else
        name.with_suffix(suffix) if video else name.with_name(name.name + suffix)
        for name, suffix, video in zip(names, suffixes, videos, strict=True)
    ]  # fmt: skip
    labels = [n if video else n.with_suffix('.png') for n, video in zip(names, videos, strict=True)]
    return [
        Source(*each)
        for each in zip(
            found,
            names,
            result_names(names, pictures, suffixes),
            result_names(names, labels, ['' if video else '.png' for video in videos]),
            strict=True,
        )
    ]


def make_unique(found: dict[Path, Path]) -> dict[Path, Path]:
    """The same names, or paths relative to the common parent folder if names are not unique."""
    if len(set(found.values())) == len(found):
        return found
    common = os.path.commonpath([path.parent for path in found])
    return {path: path.relative_to(common) for path in found}
