"""One mask per object: a folder of black and white images for every image."""

from collections import defaultdict
from pathlib import Path

from mmeffvit.data.faults import IMAGE_AMBIGUOUS, IMAGE_MISSING, MASK_BROKEN, MASK_SIZE, Findings
from mmeffvit.data.records import DataSet, Object, Picture, in_words, split_of
from mmeffvit.data.tree import Match, Tree
from mmeffvit.utils.images import Unreadable, read_labels
from mmeffvit.utils.messages import in_threads
from mmeffvit.utils.text import counted

from .coco_file import encode_runs
from .shapes import box_of_mask

NAME = 'one mask per object'
ONLY = 'object'
MASKS, IMAGES = ('masks', 'mask', 'instances', 'objects'), ('images', 'image')


def find(tree: Tree) -> Match | None:
    """Images with a folder of masks: ``ID/images/ID.png`` and ``ID/masks/``, or ``masks/ID/``."""
    if tree.given is not None:
        return None
    pairs: dict[Path, list[Path]] = {}
    others: dict[Path, list[Path]] = {}  # folders of masks with none or several images
    by_stem = defaultdict(list)
    for path in tree.images:  # masks may be called as other images
        if not {path.parent.name.lower(), path.parent.parent.name.lower()} & {*MASKS}:
            by_stem[path.stem].append(path)
    for folder, masks in tree.folders.items():
        if folder.name.lower() in MASKS and folder.parent != tree.root:
            images = [
                path
                for other, found in tree.folders.items()
                if other.parent == folder.parent and other.name.lower() in IMAGES
                for path in found
            ]
        elif folder.parent.name.lower() in MASKS:
            images = by_stem[folder.name]
        else:
            continue
        if len(images) == 1:
            pairs[images[0]] = masks
        else:
            others[folder] = images
    if len(pairs) < 2 or sum(map(len, pairs.values())) <= len(pairs):
        return None
    why = f'{counted(len(pairs), "image")} with a folder of masks each'
    return Match((tree, pairs, others), why)


def read(
    tree: Tree,
    pairs: dict[Path, list[Path]],
    others: dict[Path, list[Path]],
    findings: Findings,
) -> DataSet:
    """Read the masks of :func:`find`: what is not black is the object."""
    for folder, images in others.items():
        findings.add(IMAGE_AMBIGUOUS if images else IMAGE_MISSING, f'the image of {folder}')
    paths = [path for masks in pairs.values() for path in masks]
    found = dict(zip(paths, in_threads(read_mask, paths, 'masks'), strict=True))
    splits: dict[str, list[Picture]] = defaultdict(list)
    for path, masks in pairs.items():
        sizes = [found[m].mask['size'] for m in masks if isinstance(found[m], Object)]
        picture = Picture(path, recorded=tuple(sizes[0]) if sizes else None)
        for mask in masks:
            item = found[mask]
            if isinstance(item, str):
                findings.add(MASK_BROKEN, item)
                picture.num_broken += 1
            elif item.mask['size'] != sizes[0]:
                findings.add(MASK_SIZE, f'{mask}: {in_words(tuple(item.mask["size"]))}')
                picture.num_broken += 1
            else:
                picture.objects.append(item)
        splits[split_of(path.parent, tree.root)].append(picture)
    return DataSet(NAME, tree.root, [ONLY], dict(splits), findings)


def read_mask(path: Path) -> Object | str:
    """The object of a mask, or why it cannot be read."""
    try:
        values = read_labels(path)
    except Unreadable as error:
        return str(error)
    values = values.reshape(*values.shape[:2], -1)
    mask = values[..., : 1 if values.shape[-1] == 2 else 3].any(-1)  # without alpha
    return Object(0, box_of_mask(mask), str(path), encode_runs(mask))
