"""Classification datasets: a folder of images per class, with or without `train/` and `val/`."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from mmeffvit.data.faults import IMAGE_BROKEN, IMAGE_UNLISTED, Findings
from mmeffvit.data.files import images_below
from mmeffvit.data.records import SPLIT_NAMES, WHOLE, DataSet, Object, Picture, split_in
from mmeffvit.data.tree import TEXTS, Match, Tree
from mmeffvit.errors import UserError
from mmeffvit.utils.images import is_image
from mmeffvit.utils.text import counted, listed

from .label_maps import HEADING, LOSSLESS

NAME = 'a folder per class'
PREFIXED = re.compile('(?i:images|labels|masks|annotations)(?![a-z])')  # imagesTr, images_001
OTHERS = ('images', 'labels', 'masks', 'annotations')  # of other formats: no names of classes
PAIRED = ('image', 'img', 'imgs', 'label', 'mask', 'gt')  # beside a folder with the same names
ANNOTATIONS = ('.txt', '.xml', '.json', '.csv', '.mat')  # that may be of one image
HIDDEN = ('.', '__MACOSX', 'work_dirs')  # the last has runs
UNREAD = ('.heic', '.heif', '.gif', '.jp2', '.tga')  # images in formats that training does not read
FULL = (0.0, 0.0, 1.0, 1.0)  # the box of the whole image


def find(tree: Tree) -> Match | None:
    """The folder of each split, if there are two or more classes in all of them and nothing else.

    Files that are named as images, are in a folder of their own or have boxes may be annotations,
    and two folders with the same names may be images and label maps: these are no classes, unless
    the user says so. Where a folder has only another one with images, as archives do, that one is
    entered.
    """
    is_asked = tree.format == 'classes'
    found = places(tree, is_asked=is_asked)
    if not found:
        return None
    filled = tree.filled
    classes = classes_in(found['train'], filled)
    names = {name for path in tree.images for name in (path.stem, path.name)}
    if not is_asked and (
        any(p.stem in names or p.parent not in filled for p in tree.of(*ANNOTATIONS))
        or are_pairs(tree)
        or are_parts(tree, classes, names)
        or have_boxes(tree)
    ):
        return None
    check_inner(classes, filled)
    why = f'{counted(len(classes), "folder")} of images and nothing else'
    return Match((tree, found), why)


def places(tree: Tree, *, is_asked: bool) -> dict[str, Path] | None:
    """The folder of each split, if there are two or more folders of images in all of them.

    If the user asks for classes, they may also be in a folder such as ``images``.
    """
    if tree.given is not None:
        return None
    filled = tree.filled
    stops = () if is_asked else OTHERS
    root = enter(tree.root, filled, stops)
    beside = [folder for folder in folders_in(root) if folder in filled or not is_asked]
    if any(PREFIXED.match(folder.name) for folder in beside):
        return None
    divided = splits_in(root, filled)
    found = {split: enter(folder, filled, stops) for split, folder in divided.items()}
    labeled = [f for split, f in found.items() if split != 'test' or folders_in(f)]  # not Kaggle's
    return found if all(has_classes(folder, filled) for folder in labeled) else None


def enter(folder: Path, filled: set[Path], stops: Sequence[str] = OTHERS) -> Path:
    """The folder in which there are several with images, or images."""
    inner = [each for each in folders_in(folder) if each in filled]
    stops = (*stops, *SPLIT_NAMES)
    if len(inner) != 1 or inner[0].name.lower() in stops or any(map(is_image, folder.iterdir())):
        return folder
    return enter(inner[0], filled, stops)


def splits_in(root: Path, filled: set[Path]) -> dict[str, Path]:
    """The folders that are named after splits; else all is to train on."""
    inner = [folder for folder in folders_in(root) if folder in filled]
    named: dict[str, Path] = {}
    kinds = [SPLIT_NAMES.get(folder.name.lower()) for folder in inner]
    if kinds.count('val') == 2 and 'test' not in kinds:  # Food-11 has validation and evaluation
        kinds = [
            'test' if f.name.lower() in WHOLE else k for f, k in zip(inner, kinds, strict=True)
        ]
    for split, folder in zip(kinds, inner, strict=True):
        if split in named and 'train' in kinds:
            raise UserError(
                f'{named[split]} and {folder} are for the same split: give the one to use'
            )
        if split:
            named[split] = folder
    worded = {split: folder for folder in inner if (split := split_in(folder.name))}
    is_split = len(worded) > 1 or all(has_classes(folder, filled) for folder in worded.values())
    found = named if 'train' in named or not is_split else worded  # seg_train and seg_test
    return found if 'train' in found else {'train': root}


def are_pairs(tree: Tree) -> bool:
    """Whether the images of a folder have the names of label maps in another: lossless ones beside
    JPEG, or folders that are called so.
    """
    kinds: dict[frozenset[str], list[Path]] = defaultdict(list)
    for folder, paths in tree.folders.items():
        kinds[frozenset(path.stem for path in paths)].append(folder)
    for found in (found for stems, found in kinds.items() if len(stems) > 1 and len(found) > 1):
        lossless = sorted(all(p.suffix.lower() in LOSSLESS for p in tree.folders[f]) for f in found)
        if lossless == [False, True] or any(f.name.lower() in PAIRED for f in found):
            return True
    return False


def are_parts(tree: Tree, classes: Sequence[Path], names: set[str]) -> bool:
    """Whether the folders are numbered parts, and a table has some ``names`` of their images."""
    kinds = {re.sub(r'\d+', '', folder.name) for folder in classes}
    if len(kinds) > 1 or not all(kinds):
        return False
    heads = (tree.head(p)[:HEADING].decode(errors='replace') for p in tree.of('.csv', '.txt'))
    words = ({*re.split(r'[\s,;"]+', head)} for head in heads)
    folders = {folder.name for folder in classes}
    return any(names & found and not folders & found for found in words)


def have_boxes(tree: Tree) -> bool:
    """Whether a text has four numbers or more per image, and none has the folder of an image."""
    folders: dict[str, set[str]] = defaultdict(set)
    for path in tree.images:
        folders[path.name].add(path.parent.name)
        if not path.stem.isdecimal():
            folders[path.stem].add(path.parent.name)
    has_any = False
    for text in tree.of(*TEXTS, '.yaml', '.yml'):
        images = numbers = 0
        for line in tree.head(text)[:HEADING].decode(errors='replace').splitlines():
            words = re.split(r'[\s,;:"\'()\[\]{}]+', line)
            around = [folders.get(re.split(r'[/\\]', word)[-1], set()) for word in words]
            if any(found.intersection(words) for found in around):
                return False  # a table of the classes
            images += sum(map(bool, around))
            numbers += sum(bool(re.fullmatch(r'-?\d+(\.\d+)?', word)) for word in words)
        has_any |= images > 1 and numbers >= 4 * images
    return has_any


def check_inner(classes: Sequence[Path], filled: set[Path]) -> None:
    """Reject folders that have splits or the same classes inside, as two exports in one folder."""
    names = [folder.name for folder in classes]
    inner = {
        folder: [each.name for each in folders_in(enter(folder, filled)) if each in filled]
        for folder in classes
    }
    shared = Counter(name for found in inner.values() if len(found) > 1 for name in found)
    for folder, found in inner.items():
        is_split = any(name.lower() in SPLIT_NAMES for name in found)
        if is_split or {*names} & {*found} or sum(shared[name] > 1 for name in found) > 1:
            raise UserError(
                f'the folders of {folder.parent} would be classes ({listed(names)}), but '
                f'{folder.name} has folders of images as well ({listed(found)}): give the folder '
                'whose folders are the classes, or have train/CLASS and val/CLASS'
            )


def folders_in(folder: Path) -> list[Path]:
    return sorted(f for f in folder.iterdir() if f.is_dir() and not f.name.startswith(HIDDEN))


def classes_in(folder: Path, filled: set[Path]) -> list[Path]:
    """The folders of images, and empty ones."""
    return [each for each in folders_in(folder) if each in filled or not any(each.iterdir())]


def has_classes(folder: Path, filled: set[Path]) -> bool:
    classes = folders_in(folder)
    is_other = any(map(PREFIXED.match, (each.name for each in classes)))
    return not is_other and sum(each in filled for each in classes) > 1


def read(tree: Tree, splits: dict[str, Path], findings: Findings) -> DataSet:
    """Read the folders of :func:`find`; each image has one object that covers it."""
    classes = [folder.name for folder in classes_in(splits['train'], tree.filled)]
    pictures: dict[str, list[Picture]] = {}
    for split, folder in splits.items():
        names = [inner.name for inner in classes_in(folder, tree.filled)]
        if not names:
            continue
        if unknown := sorted({*names} - {*classes}):
            raise UserError(
                f'{folder} has classes that {splits["train"]} does not have: {listed(unknown)}'
            )
        pictures[split] = [
            Picture(path, [Object(classes.index(name), FULL, str(path), is_relative=True)])
            for name in names
            for path in images_below(folder / name)
        ]
    used = {picture.path for part in pictures.values() for picture in part}
    for path in tree.files:
        if path.suffix.lower() in UNREAD:
            findings.add(IMAGE_BROKEN, f'{path} (save it as JPEG or PNG)')
        elif is_image(path) and path not in used:
            findings.add(IMAGE_UNLISTED, path)
    return DataSet(NAME, tree.root, classes, pictures, findings)
