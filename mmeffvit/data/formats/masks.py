"""A folder of images and one of label maps, for segmentors."""

from collections import defaultdict
from pathlib import Path

from mmeffvit.data import faults
from mmeffvit.data.faults import Findings
from mmeffvit.data.files import images_below
from mmeffvit.data.records import DataSet, Picture, split_of
from mmeffvit.errors import UserError
from mmeffvit.utils.text import listed

from .label_maps import guess_classes, read_table

NAME = 'images and label maps'
IMAGES = ('images', 'image', 'imgs', 'img', 'jpegimages', 'leftimg8bit', 'img_dir')
MAPS = ('masks', 'mask', 'labels', 'label', 'annotations', 'segmentationclass', 'gt', 'ann_dir')
SUFFIXES = ('_mask', '_masks', '_label', '_labels', '_seg', '_gt', '_labelIds')  # of Roboflow, ...
LOSSLESS = ('.png', '.bmp', '.tif', '.tiff')

Pair = tuple[Path, Path]  # folders of images and of their maps, which may be one


def find(path: Path) -> list[Pair] | None:
    """The pairs of folders; None if it is of another format."""
    if not path.is_dir():
        return None
    below = [p for p in sorted(path.iterdir()) if p.is_dir()]
    return [pair for folder in (path, *below) if (pair := pair_in(folder))] or None


def pair_in(folder: Path) -> Pair | None:
    inner = {p.name.lower(): p for p in sorted(folder.iterdir()) if p.is_dir()}
    images = next((inner[name] for name in IMAGES if name in inner), None)
    maps = next((inner[name] for name in MAPS if name in inner and has_maps(inner[name])), None)
    if images and maps:
        return images, maps
    mixed = any(folder.glob('*_mask.png'))  # beside the images, as Roboflow exports them
    return (folder, folder) if mixed else None


def has_maps(folder: Path) -> bool:
    return any(path.suffix.lower() in LOSSLESS for path in images_below(folder))


def read(pairs: list[Pair], findings: Findings) -> DataSet:
    """Read the folders of :func:`find`."""
    first, first_maps = pairs[0]
    root = first if first == first_maps else first.parent
    if len(pairs) > 1 or split_of(first.parent, first.parent.parent) != 'train':
        root = root.parent  # a folder for each split
    splits: dict[str, list[Picture]] = defaultdict(list)
    for images, maps in pairs:
        for picture in read_pair(images, maps, findings):
            splits[split_of(picture.path.parent, root)].append(picture)
    if not splits.get('train'):
        raise UserError(f'{root}: no image of {first} has a label map in {first_maps}')
    classes, colors = read_table(root, findings)
    if not classes:
        classes, colors = guess_classes([p for part in splits.values() for p in part])
    return DataSet(NAME, root, classes, dict(splits), findings, colors=colors)


def read_pair(images: Path, maps: Path, findings: Findings) -> list[Picture]:
    """Every image with its map."""
    by_stem: dict[str, list[Path]] = defaultdict(list)
    for path in images_below(maps):
        if path.suffix.lower() in LOSSLESS and (images != maps or ending_of(path)):
            by_stem[path.stem.removesuffix(ending_of(path))].append(path)
    pictures = []
    used = set()
    for path in images_below(images):
        if images == maps and path in by_stem.get(path.stem.removesuffix(ending_of(path)), ()):
            continue
        found = by_stem.get(path.stem, [])
        same = [p for p in found if p.parent.relative_to(maps) == path.parent.relative_to(images)]
        found = same or found
        if len(found) == 1 and found[0] in used:
            findings.add(faults.LABELS_SHARED, f'{found[0]}: {path}, and another image')
            continue
        if len(found) != 1:
            text = f'{path}: {listed(found)}' if found else str(path)
            findings.add(faults.IMAGE_AMBIGUOUS if found else faults.MAP_MISSING, text)
            continue
        used.add(found[0])
        pictures.append(Picture(path, label_map=found[0]))
    for path in sorted({p for found in by_stem.values() for p in found} - used):
        findings.add(faults.IMAGE_MISSING, f'the image of {path}')
    return pictures


def ending_of(path: Path) -> str:
    """The part of the name that marks a label map; often empty."""
    return next((suffix for suffix in SUFFIXES if path.stem.endswith(suffix)), '')
