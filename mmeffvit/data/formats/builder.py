"""A dataset that is collected image by image and object by object."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import indent
from typing import Any

from mmeffvit.data import faults
from mmeffvit.data.files import ImageFinder
from mmeffvit.data.records import DataSet, Object, Picture, Size, named_split, split_of
from mmeffvit.data.tree import Tree
from mmeffvit.errors import UserError
from mmeffvit.utils.files import read_json
from mmeffvit.utils.text import listed

from .shapes import Points, box_of, clipped, flat

IMAGE_FOLDERS = ('images', 'JPEGImages', 'img', 'data')


def folders_near(source: Path) -> list[Path]:
    """Where the images of a file of annotations are looked for first."""
    parents = (source.parent, source.parent.parent)
    return [*parents, *(parent / inner for parent in parents for inner in IMAGE_FOLDERS)]


class Builder:
    """Collects a dataset; images are found by name, classes are numbered as they appear."""

    def __init__(self, tree: Tree, findings: faults.Findings) -> None:
        self.root, self.findings = tree.root, findings
        self.is_given = tree.given is not None
        self.finder = ImageFinder(tree.root, findings)
        self.numbers: dict[str, int] = {}  # of the classes, in the order they appear
        self.splits: dict[str, dict[Path, Picture]] = {}

    def json_contents(self, paths: Iterable[Path]) -> Iterator[tuple[Path, Any]]:
        """The contents of JSON files; a finding for each one that cannot be read."""
        for path in paths:
            try:
                content = read_json(path)
            except UserError as error:
                self.findings.add(faults.FILE_BROKEN, error)
                continue
            yield path, content

    def json_files(self, paths: Iterable[Path], key: str) -> Iterator[tuple[Path, dict]]:
        """The contents of those JSON files that have a list under ``key``."""
        for path, content in self.json_contents(paths):
            if isinstance(content, dict) and isinstance(content.get(key), list):
                yield path, content

    def picture(
        self,
        name: str,
        source: Path,
        where: str = '',
        size: Size | None = None,
        split: str | None = None,
        inside: str = '',
    ) -> Picture | None:
        """The image of a name in a file of annotations; None, and a finding, without one.

        Its split is by default the one that folders are named after; a sub-folder ``inside`` is
        searched first.
        """
        own = split or named_split(source.parent, self.root)
        folders = folders_near(source)
        if inside:
            folders = [*(folder / inside for folder in folders), *folders]
        found = self.finder.find(name, folders, own)
        if len(found) != 1:
            self.finder.report(name, found, where or source)
            return None
        return self.place(found[0], size, own)

    def place(self, path: Path, size: Size | None, split: str | None = None) -> Picture:
        """An image in its split, by default the one that folders are named after."""
        pictures = self.splits.setdefault(split or split_of(path.parent, self.root), {})
        return pictures.setdefault(path, Picture(path, recorded=size))

    def own_image(self, path: Path, name: str) -> Path | None:
        """The image of a file that annotates one image; None, and a finding, without one.

        The image that is named as the file counts, also where an older name is in the file, as
        after renaming both. Without a name in the file, ``name`` is empty.
        """
        split, folders = named_split(path.parent, self.root), folders_near(path)
        found = self.finder.find(path.stem, folders, split)
        if len(found) != 1 or found[0].name != name.rpartition('/')[2]:
            named = self.finder.find(name, folders, split) if name else []
            if len(found) != 1:
                found = named or found
            elif named and named != found:
                self.findings.add(faults.NAME_OLD, f'{path}: {name}')
        if len(found) != 1:
            self.finder.report(name or path.stem, found, path)
        elif any(found[0] in pictures for pictures in self.splits.values()):
            self.findings.add(faults.IMAGE_LISTED_TWICE, f'{found[0]}, again in {path}')
        else:
            return found[0]
        return None

    def add(
        self,
        picture: Picture,
        name: Any,
        where: str,
        *,
        box: Sequence[float] | None = None,
        points: Points | None = None,
        outline: Points | None = None,
        mask: Any = None,
        **more: Any,
    ) -> Object | None:
        """Add an object of a class ``name``; None, and a finding, without a name.

        The box is by default around the points, the mask their polygon; a computed outline is
        clipped to the image; ``more`` are other fields of :class:`Object`.
        """
        name = str(name).strip() if isinstance(name, str | int) else ''
        if not name:
            self.broken(picture, where, 'an object without a class')
            return None
        if outline is not None:
            points = clipped(outline, picture.recorded)
        if points is not None and mask is None:
            mask = [flat(points)]
        left, top, width, height = box if box is not None else box_of(points or [])
        label = self.numbers.setdefault(name, len(self.numbers))
        item = Object(label, (left, top, width, height), where, mask, **more)
        picture.objects.append(item)
        return item

    def each(
        self,
        picture: Picture | None,
        rows: Any,
        where: str,
        read: Callable[[Any, str, Picture, 'Builder'], object],
        lines: Mapping[Any, int] | None = None,
    ) -> None:
        """Read every object of an image, if there is one; report those that cannot be read.

        Its place is ``where``, the file and what an object is called, with its number or line.
        """
        if picture is not None and not isinstance(rows, list):
            self.broken(picture, where, f'{rows!r:.40} is not a list')
            return
        for count, row in enumerate(rows if picture else (), 1):
            place = f'{where} {lines[row] if lines else count}'
            try:
                read(row, place, picture, self)
            except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
                self.broken(picture, place, error)

    def broken(self, picture: Picture, where: str, why: object) -> None:
        """Report an object that cannot be read."""
        picture.num_broken += 1
        self.findings.add(faults.RECORD_BROKEN, f'{where}: {why}')

    def unread(self, where: str, kind: object) -> None:
        """Report what is no box and no outline, and not read."""
        self.findings.add(faults.SHAPE_UNREAD, f'{where}: {kind}')

    def build(self, format: str, files: Iterable[Path] = ()) -> DataSet:
        """The dataset; its classes are sorted.

        Raises:
            UserError: If there is nothing to train on.
        """
        splits = {split: list(pictures.values()) for split, pictures in self.splits.items()}
        if self.is_given and len(splits) == 1:  # the one file to train on, whatever its name
            splits = dict(train=next(iter(splits.values())))
        if not splits.get('train') or not self.numbers:
            only = f'; all are of {listed(splits)}' if splits and 'train' not in splits else ''
            raise UserError(
                f'{self.root}: no object in {listed(files, 3)} to train on{only}',
                *indent(self.findings.describe(), '  ').splitlines(),
            )
        classes = sorted(self.numbers)
        labels = {self.numbers[name]: label for label, name in enumerate(classes)}
        data = DataSet(format, self.root, classes, splits, self.findings)
        for item in data.objects():
            item.label = labels[item.label]
        return data
