"""Classification datasets: a folder of images per class, with or without `train/` and `val/`."""

from collections import defaultdict
from pathlib import Path

from mmeffvit.data.faults import Findings
from mmeffvit.data.files import images_below
from mmeffvit.data.records import SPLIT_NAMES, DataSet, Object, Picture
from mmeffvit.data.tree import Match, Tree
from mmeffvit.errors import UserError
from mmeffvit.utils.text import counted, listed

from .masks import LOSSLESS

NAME = 'a folder per class'
OTHERS = ('images', 'labels', 'masks', 'annotations')  # of other formats: no names of classes
TEXTS = ('.txt', '.xml', '.json')  # of annotations, if they are named as images
WHOLE = (0.0, 0.0, 1.0, 1.0)  # the box of the full image
Place = tuple[Tree, dict[str, Path]]  # the folder of each split


def find(tree: Tree) -> Match | None:
    """The folder of each split, if there are two or more classes in all of them and nothing else.

    Files that are named as images may be their annotations, and two folders with the same names
    may be images and label maps: these are no classes.
    """
    if tree.given is not None:
        return None
    inner = {folder.name.lower(): folder for folder in folders_in(tree.root)}
    splits = {SPLIT_NAMES[name]: inner[name] for name in inner if name in SPLIT_NAMES}
    found = splits if 'train' in splits else {'train': tree.root}
    if inner.keys() & {*OTHERS} or not all(map(has_classes, found.values())):
        return None
    stems = {path.stem for path in tree.images}
    if any(path.stem in stems for path in tree.of(*TEXTS)) or are_pairs(tree):
        return None
    classes = folders_in(found['train'])
    return Match((tree, found), f'{counted(len(classes), "folder")} of images and nothing else')


def are_pairs(tree: Tree) -> bool:
    """Whether a folder of JPEG images has the names of one of lossless images: label maps."""
    kinds: dict[frozenset[str], list[bool]] = defaultdict(list)
    for paths in tree.folders.values():
        is_lossless = all(path.suffix.lower() in LOSSLESS for path in paths)
        kinds[frozenset(path.stem for path in paths)].append(is_lossless)
    return any(len(stems) > 1 and sorted(found) == [False, True] for stems, found in kinds.items())


def folders_in(folder: Path) -> list[Path]:
    return sorted(f for f in folder.iterdir() if f.is_dir() and not f.name.startswith('.'))


def has_classes(folder: Path) -> bool:
    classes = folders_in(folder)
    is_other = any(each.name.lower() in OTHERS for each in classes)
    return not is_other and sum(bool(images_below(each)) for each in classes) > 1


def read(place: Place, findings: Findings) -> DataSet:
    """Read the folders of :func:`find`; each image has one object that covers it."""
    tree, splits = place
    root = tree.root
    for folder in folders_in(root):
        used = splits.get(SPLIT_NAMES.get(folder.name.lower(), ''), folder)
        if used not in (folder, root):
            raise UserError(f'{used} and {folder} are for the same split: give the one to use')
    classes = [folder.name for folder in folders_in(splits['train'])]
    pictures: dict[str, list[Picture]] = {}
    for split, folder in splits.items():
        names = [inner.name for inner in folders_in(folder)]
        if unknown := sorted({*names} - {*classes}):
            raise UserError(
                f'{folder} has classes that {splits["train"]} does not have: {listed(unknown)}'
            )
        pictures[split] = [
            Picture(path, [Object(classes.index(name), WHOLE, str(path), is_relative=True)])
            for name in names
            for path in images_below(folder / name)
        ]
    return DataSet(NAME, root, classes, pictures, findings)
