"""Images and label maps, for segmentors: pairs of folders whose files match by name."""

import os
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from mmeffvit.data import faults
from mmeffvit.data.faults import Findings
from mmeffvit.data.files import images_below
from mmeffvit.data.records import CAMEL, WORD, DataSet, Picture, named_split, split_in, split_of
from mmeffvit.data.tree import Match, Tree
from mmeffvit.errors import UserError
from mmeffvit.utils.images import Unreadable
from mmeffvit.utils.text import counted, listed

from . import class_folders
from .label_maps import (
    IGNORED,
    LOSSLESS,
    as_binary,
    check_palettes,
    guess_classes,
    read_label_map,
    read_table,
    read_values,
    values_in,
)
from .voc import LISTS, in_folder_of_lists, lists_above, read_splits

NAME = 'images and label maps'
# words of the names of folders and files, where what the files are does not tell
MAPS = re.compile(  # the short ones are not part of other words, such as `AnnualCrop`
    'mask|label|annot|truth|segm|'
    '(?<![a-z])(train|val|test)?(gt|ground|seg|anno?|manual)s?(train|val|test)?(?![a-z])'
)
IMAGES = re.compile('image|img|jpeg|photo|picture|rgb')
OTHER_MAPS = re.compile('instance|object|visual|viz|overlay|edge|color|panoptic')
NO_IMAGES = re.compile('overlay|blend|visual|viz|preview|depth|nir|thermal|superpixel')
KNOWN = (MAPS, IMAGES, OTHER_MAPS, NO_IMAGES, re.compile('ids'))
BEST = 'labeltrainids'  # of Cityscapes, whose other maps have classes that are not trained
AFFIX = re.compile(r'[_. -]\d?[A-Za-z][A-Za-z0-9]*$|(?<=\d)[A-Za-z]+$')
PREFIX = re.compile(r'^[A-Za-z]+[_. -]?(?=\d)|^[A-Za-z]+[_. -]')
FURTHER = re.compile(r'_\d+$')  # BUSI has NAME_mask_1.png beside NAME_mask.png
SAMPLED = 5  # files of a folder that are looked into
FEW = 64  # colors of a label map; an image has more
LEAST = 0.5  # part of the maps or of the images of a folder that match


@dataclass(frozen=True)
class Group:
    """Files of one folder that end alike."""

    folder: Path  # the folder
    paths: tuple[Path, ...]  # its files, or those with the ending
    ending: str = ''  # what the names end with, such as ``_mask`` of ``NAME_mask.png``

    @cached_property
    def keys(self) -> list[dict[str, Path]]:
        """The files by what identifies them: the path, and what is left without common affixes."""
        whole = {self.key(path): path for path in self.paths}
        bare = whole
        for _ in range(2):  # as in _gtFine_labelIds
            bare = without_common(bare, AFFIX)
        bare = without_common(bare, PREFIX)
        names = {path.stem.removesuffix(self.ending): path for path in self.paths}
        flat = names if len(names) == len(self.paths) else whole  # without sub-folders
        return [whole, bare, flat]

    def key(self, path: Path) -> str:
        name = path.relative_to(self.folder).with_suffix('').as_posix().removesuffix(self.ending)
        return unicodedata.normalize('NFC', name)  # archives of macOS have NFD

    @cached_property
    def is_map(self) -> bool:
        """Whether the files are label maps: lossless, with few colors, or named so.

        In JPEG, they are masks of black and white that are named so.
        """
        is_named = self.is_named(MAPS) and not self.is_named(IMAGES)
        if not all(path.suffix.lower() in LOSSLESS for path in self.paths[:SAMPLED]):
            return is_named and all(map(is_black_and_white, self.sampled))
        return is_named or bool(self.colors and np.median(list(map(len, self.colors))) <= FEW)

    @property
    def sampled(self) -> Sequence[Path]:
        return self.paths[:: max(1, len(self.paths) // SAMPLED)][:SAMPLED]

    @cached_property
    def colors(self) -> list[Counter]:
        """The values or colors of the sampled files that can be read."""
        return [found for path in self.sampled if (found := values_in(path))]

    def is_named(self, words: re.Pattern) -> bool:
        return has(f'{self.folder.name} {self.ending}', words)

    @property
    def rank(self) -> tuple[bool, bool, bool]:
        """Which of several maps of one image is meant, the best first."""
        name = f'{self.folder.parent.name}/{self.folder.name}{self.ending}'
        return BEST not in name.lower(), has(name, OTHER_MAPS), not has(name, MAPS)

    @property
    def image_rank(self) -> tuple[bool, bool]:
        """Which of several images of one map is meant, the best first."""
        return self.is_named(NO_IMAGES), not self.is_named(IMAGES)

    @property
    def shown(self) -> str:
        return f'{self.folder}{self.ending and "/*" + self.ending}'


def without_common(names: dict[str, Path], pattern: re.Pattern) -> dict[str, Path]:
    """Names without the affix that all of them have."""
    found = {m.group() if (m := pattern.search(name)) else '' for name in names}
    if len(found) != 1 or (len(names) < 2 and not is_known(*found)):
        return names
    cut = {pattern.sub('', name): path for name, path in names.items()}
    return cut if len(cut) == len(names) and all(cut) else names


def is_known(affix: str) -> bool:
    """Whether an affix is a word for images or maps."""
    return any(has(affix, words) for words in KNOWN)


def has(name: str, words: re.Pattern) -> bool:
    """Whether a name has one of these words."""
    return bool(words.search(CAMEL.sub(' ', name).lower()))


def is_black_and_white(path: Path) -> bool:
    try:
        return read_values(path).ndim == 2
    except Unreadable:
        return False


@dataclass(frozen=True)
class Pair:
    """Images and their maps."""

    images: Group
    maps: Group
    matched: dict[Path, Path]  # the map of an image


def find(tree: Tree) -> Match | None:
    """The pairs of folders."""
    if tree.given is not None:
        return None
    pairs = list(pairs_in(tree))
    if not pairs:
        return None
    first = pairs[0]
    if may_be_classes(first) and class_folders.find(tree):
        raise UserError(
            f'{first.images.shown} and {first.maps.shown} have files of the same names, which may '
            'be images and label maps, or images of two classes: give --images DIR --masks DIR, '
            'or --format classes'
        )
    shown = [str(Path(each.shown).relative_to(tree.root)) for each in (first.images, first.maps)]
    more = f', and {counted(len(pairs) - 1, "other pair")}' if len(pairs) > 1 else ''
    return Match((tree, pairs), f'the files of {shown[0]} and {shown[1]} have the same names{more}')


def may_be_classes(pair: Pair) -> bool:
    """Whether files of few colors, but of others in each, may be images like handwritten digits."""
    groups = (pair.images, pair.maps)
    are_named = any(group.is_named(words) for group in groups for words in (MAPS, IMAGES))
    return not are_named and len(set().union(*pair.maps.colors)) > FEW


def candidates_in(tree: Tree) -> Iterator[list[Pair]]:
    """The pairs of every group of images."""
    groups = [g for folder, paths in tree.folders.items() for g in split_by_ending(folder, paths)]
    by_key: dict[str, list[Group]] = defaultdict(list)
    for group in groups:
        for key in {key for keys in group.keys for key in keys}:
            by_key[key].append(group)
    for group in groups:
        near = {id(g): g for keys in group.keys for key in keys for g in by_key[key]}
        others = [g for g in near.values() if g is not group and g.is_map]
        if not others or group.is_map:
            continue
        pairs = [pair for other in others if (pair := pair_of(group, other, tree.root))]
        if pairs:
            yield pairs


def pairs_in(tree: Tree) -> Iterator[Pair]:
    """Every group of images with the group of maps that fits a table, if there is one, best."""
    candidates = list(candidates_in(tree))
    if not candidates:
        return
    folders = {pair.maps.folder for pairs in candidates for pair in pairs}
    colors = read_table(tree.root, folders, Findings())[1]
    of_maps: dict[int, list[Pair]] = defaultdict(list)
    rivals: dict[int, list[Pair]] = {}  # pairs of the same rank as the best of some images
    for pairs in candidates:
        ranks = [(misfit(p.maps, colors), distance(p, tree.root), p.maps.rank) for p in pairs]
        best = pairs[ranks.index(min(ranks))]
        rivals[id(best)] = [p for p, r in zip(pairs, ranks, strict=True) if r == min(ranks)]
        of_maps[id(best.maps)].append(best)
    for pairs in of_maps.values():
        if len(pairs) == 1 or pairs[0].maps.is_named(MAPS):
            best = min(pairs, key=lambda p: (p.images.image_rank, distance(p, tree.root)))
            if len(rivals[id(best)]) > 1:
                raise UserError(
                    f'{best.images.folder} has label maps in '
                    f'{listed(p.maps.shown for p in rivals[id(best)])}: give the folder to use, '
                    '--images DIR --masks DIR'
                )
            yield best


def misfit(maps: Group, colors: dict) -> float:
    """The share of the pixels of a map that are not in a table of classes."""
    try:
        return round(read_label_map(maps.paths[0], colors)[2], 1) if colors else 0.0
    except Unreadable:
        return 1.0


def split_by_ending(folder: Path, paths: Sequence[Path]) -> list[Group]:
    """The files of a folder, divided by known endings, and by others that only some names have."""
    by_affix: dict[str, list[Path]] = defaultdict(list)
    for path in paths:
        match = AFFIX.search(path.stem)
        by_affix[match.group() if match and match.start() else ''].append(path)
    stems = {path.stem for path in paths}
    endings: dict[str, list[Path]] = defaultdict(list)
    for affix, found in by_affix.items():
        is_beside = all(path.stem.removesuffix(affix) in stems for path in found)
        endings[affix if is_known(affix) or (affix and is_beside) else ''] += found
    if len(endings) == 1:  # images beside maps of the same name, if the suffix tells
        lossy = [path for path in paths if path.suffix.lower() not in LOSSLESS]
        rest = [path for path in paths if path.suffix.lower() in LOSSLESS]
        shared = {p.stem for p in lossy} & {p.stem for p in rest}
        if shared and len(shared) >= LEAST * len(lossy):
            return [Group(folder, tuple(lossy)), Group(folder, tuple(rest))]
        return [Group(folder, tuple(paths))]
    return [Group(folder, tuple(found), ending) for ending, found in endings.items()]


def pair_of(images: Group, maps: Group, root: Path) -> Pair | None:
    """The images with the maps of the same name, if half of either match and splits agree."""
    splits = [split_beginning(group.folder, root) for group in (images, maps)]
    if None not in splits and splits[0] != splits[1]:
        return None
    matched = match_names(images, maps)
    if not matched or len(matched) < LEAST * min(len(images.paths), len(maps.paths)):
        return None
    return Pair(images, maps, matched)


def match_names(images: Group, maps: Group) -> dict[Path, Path]:
    """The map of every image, by the spelling of names that most have in common."""
    best: dict[Path, Path] = {}
    for own in images.keys:
        for theirs in maps.keys:
            found = {own[key]: theirs[key] for key in own if key in theirs}
            best = max(best, found, key=len)
    return best


def split_beginning(folder: Path, root: Path) -> str | None:
    """The split of a folder, also where its name only begins with it, like ``trainannot``."""
    name = folder.relative_to(root).as_posix()
    if (split := split_in(name)) is not None:
        return split
    words = WORD.findall(name.lower())
    return next((s for word in words for s in ('train', 'val', 'test') if word.startswith(s)), None)


def distance(pair: Pair, root: Path) -> int:
    """How many parts of the two folders differ."""
    first, second = (g.folder.relative_to(root).parts for g in (pair.images, pair.maps))
    equal = sum((Counter(first) & Counter(second)).values())
    return len(first) + len(second) - 2 * equal


def read(tree: Tree, pairs: list[Pair], findings: Findings) -> DataSet:
    """Read the pairs of :func:`find`."""
    lists = lists_in(tree, pairs, findings)
    splits: dict[str, list[Picture]] = defaultdict(list)
    for pair in without_copies(pairs, findings):
        folders = [group.folder for group in (pair.images, pair.maps)]
        split = next(filter(None, (named_split(f, tree.root) for f in folders)), 'train')
        for picture in pictures_in(pair, lists, findings):
            splits[lists.get(picture.path, split)].append(picture)
    if not splits.get('train'):
        raise UserError(f'{tree.root}: no image to train on has a label map')
    return dataset_of(tree.root, dict(splits), findings)


def without_copies(pairs: Sequence[Pair], findings: Findings) -> Iterator[Pair]:
    """The pairs, but for the same files in another image format, such as PNG/ beside TIF/."""
    kept: dict[tuple[str, frozenset[str]], set[str]] = {}
    for pair in pairs:
        names = frozenset(path.stem for path in pair.matched)
        suffixes = {path.suffix.lower() for path in pair.matched}
        if kept.setdefault((pair.images.folder.name.lower(), names), suffixes) & suffixes:
            yield pair
            continue
        for path in pair.matched:
            findings.add(faults.IMAGE_UNLISTED, f'{path}, again in another format')


def lists_in(tree: Tree, pairs: Sequence[Pair], findings: Findings) -> dict[Path, str]:
    """The split of every image that ``SPLIT.txt`` lists, unless folders are named after splits."""
    if any(named_split(pair.images.folder, tree.root) for pair in pairs):
        return {}
    paths = tree.named(*LISTS)
    # for SegmentationClassContext, those in SegmentationContext
    kinds = {pair.maps.folder.name.replace('Class', '') for pair in pairs} | {'Segmentation'}
    of_voc = [p for p in paths if p.parts[-3] == 'ImageSets' and p.parts[-2] in kinds]
    others = [path for path in paths if in_folder_of_lists(path)]
    others += lists_above(tree, [path for pair in pairs for path in pair.maps.paths])
    images = [path for pair in pairs for path in pair.images.paths]
    return read_splits(of_voc or others, images, findings)


def pictures_in(pair: Pair, lists: dict[Path, str], findings: Findings) -> Iterator[Picture]:
    """Every image with its map; those without, and maps without an image, are findings.

    If there are any ``lists``, images that are not in them are not used.
    """
    used: set[Path] = set()
    twins = {path.stem: path for path in pair.matched}
    bases, ending = {p: FURTHER.sub('', p.stem) for p in pair.images.paths}, pair.maps.ending
    maps = {path.stem for path in pair.matched.values() if ending and path.stem.endswith(ending)}
    several = maps.intersection(bases.values())
    for path in pair.images.paths:
        label_map, twin = pair.matched.get(path), twins.get(path.stem)
        if lists and path not in lists:
            findings.add(faults.IMAGE_UNLISTED, path)
        elif bases[path] in several:
            continue  # reported with its image
        elif label_map is not None and label_map.stem in several:
            findings.add(faults.MAPS_SEVERAL, path)
        elif label_map is not None:
            yield Picture(path, label_map=label_map)
        elif twin is not None:
            findings.add(faults.LABELS_SHARED, f'{pair.matched[twin]}: {twin}, and another image')
        else:
            findings.add(faults.MAP_MISSING, path)
        used |= {label_map} if label_map else set()
    for path in pair.maps.paths:
        if path not in used:
            findings.add(faults.IMAGE_MISSING, f'the image of {path}')


def dataset_of(root: Path, splits: dict[str, list[Picture]], findings: Findings) -> DataSet:
    """The dataset of images with maps, whose classes a table names, or their values number."""
    pictures = [p for part in splits.values() for p in part]
    folders = {p.label_map.parent for p in pictures if p.label_map}
    classes, colors, ignored = read_table(root, folders, findings)
    if not classes:
        classes, colors = guess_classes(pictures)
    elif IGNORED not in colors and all(isinstance(value, int) for value in colors):
        classes, colors = as_binary(classes, pictures) or (classes, colors)
    if all(isinstance(value, int) for value in colors):
        check_palettes([p.label_map for p in pictures])
    return DataSet(NAME, root, classes, splits, findings, colors=colors, ignored=ignored)


def read_pair(images: Path, maps: Path, findings: Findings) -> list[Picture]:
    """Every image of a folder with its map in another, both with folders below."""
    paths = images_below(maps)
    lossless = [path for path in paths if path.suffix.lower() in LOSSLESS]
    groups = Group(images, tuple(images_below(images))), Group(maps, tuple(lossless or paths))
    return list(pictures_in(Pair(*groups, match_names(*groups)), {}, findings))


def read_folders(images: Path, maps: Path, findings: Findings) -> DataSet:
    """A dataset of a folder of images and one of maps, named by the user."""
    splits: dict[str, list[Picture]] = defaultdict(list)
    for picture in read_pair(images, maps, findings):
        splits[split_of(picture.path.parent, images)].append(picture)
    if not splits.get('train'):
        raise UserError(f'no image of {images} has a label map of the same name in {maps}')
    return dataset_of(Path(os.path.commonpath([images, maps])), dict(splits), findings)
