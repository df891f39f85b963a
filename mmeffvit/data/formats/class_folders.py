"""Classification datasets: a folder of images per class, with or without `train/` and `val/`."""

from pathlib import Path

from mmeffvit.data.faults import Findings
from mmeffvit.data.files import images_below
from mmeffvit.data.prepare import FORMATS
from mmeffvit.data.records import SPLIT_NAMES, DataSet, Object, Picture
from mmeffvit.errors import UserError
from mmeffvit.utils.text import listed

FORMAT = 'a folder per class'
OTHERS = ('images', 'labels', 'masks', 'annotations')  # of other formats: no names of classes
WHOLE = (0.0, 0.0, 1.0, 1.0)  # the box of the full image


def find(path: Path) -> dict[str, Path] | None:
    """The folder of each split; None if there are not two or more classes in all of them."""
    if not path.is_dir():
        return None
    inner = {folder.name.lower(): folder for folder in folders_in(path)}
    splits = {SPLIT_NAMES[name]: inner[name] for name in inner if name in SPLIT_NAMES}
    found = splits if 'train' in splits else {'train': path}
    if inner.keys() & {*OTHERS} or not all(map(has_classes, found.values())):
        return None
    return found


def folders_in(folder: Path) -> list[Path]:
    return sorted(f for f in folder.iterdir() if f.is_dir() and not f.name.startswith('.'))


def has_classes(folder: Path) -> bool:
    classes = folders_in(folder)
    is_other = any(each.name.lower() in OTHERS for each in classes)
    return not is_other and sum(bool(images_below(each)) for each in classes) > 1


def is_classification(path: Path) -> bool:
    """Whether a dataset has a folder per class."""
    others = (module.find(path.absolute()) for module in FORMATS.values())
    return find(path) is not None and not any(others)


def read(path: Path) -> DataSet:
    """Read the folders of :func:`find`; each image has one object that covers it."""
    root = path.absolute()
    splits = find(root) or {}
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
    return DataSet(FORMAT, root, classes, pictures, Findings())
