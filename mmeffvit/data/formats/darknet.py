"""YOLO's labels without data.yaml: darknet's text files with names and lists of images."""

import re
from collections.abc import Sequence
from pathlib import Path

from mmeffvit.data.faults import Findings
from mmeffvit.data.files import ImageFinder, names_in, read_list, read_text, require_text, spelling
from mmeffvit.data.records import SPLIT_NAMES, DataSet, split_of
from mmeffvit.data.tree import Match, Tree
from mmeffvit.errors import UserError
from mmeffvit.utils.files import read_json
from mmeffvit.utils.text import counted, listed

from .shapes import LIMIT
from .voc import lists_in, split_of_list
from .yolo import find_listed, find_orphans, labels_of, read_pictures, resolve

NAME = 'YOLO'
NAMES = (
    'obj.names', 'classes.txt', '_darknet.labels', 'predefined_classes.txt', 'notes.json',
    'labels.txt', 'names.txt',
)  # fmt: skip
LINE = re.compile(rb'\s*\d{1,9}(\.0*)?(\s+-?(\d+(\.\d*)?|\.\d+)(e-?\d+)?){4,}\s*$')
LONG = 4000  # characters of a line that are looked at


def find(tree: Tree) -> Match | None:
    """The names of the classes, and lists of images, if there are labels beside images."""
    for path in tree.of('.data'):
        settings = read_settings(path)
        if {'names', 'train'} <= settings.keys():
            names, train = (resolve(settings[key], tree.root) for key in ('names', 'train'))
            if names is None or train is None:
                absent = settings['train' if names else 'names']
                raise UserError(f'{path}: {absent!r:.200} does not exist below {tree.root}')
            named = {SPLIT_NAMES[key]: place for key, place in settings.items()
                     if key in SPLIT_NAMES}  # fmt: skip
            lists = {s: found for s, place in named.items() if (found := resolve(place, tree.root))}
            if 'val' in named and 'val' not in lists:
                raise UserError(
                    f'{path}: {named["val"]!r:.200}, to validate on, does not exist below '
                    f'{tree.root}: copy it, or remove the line'
                )
            return Match((tree, names, lists), f"{path.name}, darknet's, names {names.name}")
    if tree.given is not None:
        return None
    labels = label_files(tree)
    if not labels:
        return None
    named = [*tree.named(*NAMES), *tree.of('.names')]
    if not named:
        raise UserError(
            f'{tree.root} has labels as YOLO has them, but no names: write data.yaml with',
            *suggested(tree, labels),
        )
    folders = {path.parent for path in labels}
    for path in (p for p in named if p.parent in folders):
        if read_names(path, Findings()) != read_names(named[0], Findings()):
            raise UserError(
                f'{named[0]} and {path} number the classes differently: number them alike in all '
                'labels, and give both the same lines'
            )
    lists = {split: p for p in lists_in(tree, labels)
             if (split := split_of_list(p)) and p not in labels}  # fmt: skip
    why = f'{counted(len(labels), "text file")} of a class and a box a line, names in '
    return Match((tree, named[0], lists), why + named[0].name)


def label_files(tree: Tree) -> list[Path]:
    """Text files of a class number and a box a line, named as images."""
    stems = {spelling(path.stem) for path in tree.images}
    found = [path for path in tree.sample('.txt') if spelling(path.stem) in stems]
    filled = [path for path in found if tree.head(path).strip()]
    fitting = [path for path in filled if is_label(tree.head(path))]
    if not fitting or len(fitting) < len(filled) / 2:
        return []
    return [path for path in tree.of('.txt') if spelling(path.stem) in stems]


def is_label(content: bytes) -> bool:
    line = content.strip().split(b'\n')[0]
    line = line if len(line) <= LONG else line[:LONG].rpartition(b' ')[0]
    return bool(LINE.match(line)) and all(abs(float(v)) <= LIMIT for v in line.split()[1:])


def read_settings(path: Path) -> dict[str, str]:
    """The lines of ``key = value``."""
    lines = (read_text(path, Findings()) or '').splitlines()
    pairs = (line.partition('=') for line in lines if '=' in line and line.strip()[0] != '#')
    return {key.strip().lower(): value.strip() for key, _, value in pairs}


def suggested(tree: Tree, labels: Sequence[Path]) -> list[str]:
    """A data.yaml that would work, but for the names."""
    folders: dict[str, str] = {}
    for path in tree.images:
        if labels_of(path) in {*labels}:
            split = split_of(path.parent, tree.root)
            folders.setdefault(split, path.parent.relative_to(tree.root).as_posix())
    numbers = {
        int(float(line.split()[0]))
        for path in labels
        for line in tree.head(path).splitlines()
        if LINE.match(line[:LONG])
    }
    names = ', '.join(f'class {n}' for n in range(min(max(numbers, default=0), 999) + 1))
    lines = [f'  {split}: {folder}' for split, folder in sorted(folders.items())]
    return [*lines, f'  names: [{names}]']


def read(tree: Tree, names: Path, lists: dict[str, Path], findings: Findings) -> DataSet:
    """Read the files of :func:`find`: the names of the classes, and the lists of the splits."""
    classes = read_names(names, findings)
    images: dict[str, list[Path]] = {}
    finder = ImageFinder(tree.root, findings)
    for split, path in lists.items():
        for line in read_list(path, findings):
            images.setdefault(split, []).extend(
                find_listed(line, (tree.root, path.parent), finder, path)
            )
    if 'train' not in lists:  # else the others' images are not used
        in_lists = {path for found in images.values() for path in found}
        labeled = {path.parent for path in tree.images if labels_of(path).is_file()}
        for path in tree.images:
            split = 'train' if lists else split_of(path.parent, tree.root)
            if path.parent in labeled and path not in in_lists:
                images.setdefault(split, []).append(path)
    if not images.get('train'):
        where = f'in {listed(lists.values())}' if lists else 'with labels beside it or in labels/'
        raise UserError(f'{tree.root}: no image {where} to train on')
    used: set[Path] = set()
    splits = {
        split: read_pictures(found, len(classes), used, findings) for split, found in images.items()
    }
    if not lists:
        find_orphans(used, splits, tree.root, findings)
    return DataSet(NAME, tree.root, classes, splits, findings)


def read_names(path: Path, findings: Findings) -> list[str]:
    """The names in lines, or in Label Studio's JSON."""
    if path.suffix != '.json':
        return names_in(require_text(path, findings), path)
    content = read_json(path)
    rows = content.get('categories') if isinstance(content, dict) else None
    try:
        return [str(row['name']) for row in sorted(rows, key=lambda row: row['id'])]
    except (KeyError, TypeError) as error:
        raise UserError(f'{path} has no list of categories with id and name') from error
