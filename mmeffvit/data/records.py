"""A dataset in memory, independent of its format."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .faults import Findings

Size = tuple[int, int]  # height and width in pixels

# splits by names of folders and files
SPLIT_NAMES = {
    'trainset': 'train', 'train': 'train', 'training': 'train',
    'dev': 'val', 'eval': 'val', 'evaluation': 'val', 'validate': 'val',
    'valset': 'val', 'val': 'val', 'valid': 'val', 'validation': 'val',
    'testset': 'test', 'test': 'test', 'testing': 'test',
}  # fmt: skip
WHOLE = ('dev', 'eval', 'evaluation')  # only alone: not in `test-dev` and `eval_board`
WORD = re.compile('[a-z]+')
# ends of words, also of `X` in `XTrain`, but `labelTrainIds` is one word
CAMEL = re.compile('(?<=[a-z])(?=[A-Z])(?!Ids)|(?<=[A-Z])(?=[A-Z][a-z])')
NNUNET = re.compile('(?<=images|labels)T([rs])(?![A-Za-z])')
BOTH = re.compile('train[_ -]val(?![a-z])')  # to train on, as in the name `trainval`


@dataclass
class Object:
    """One annotated object."""

    label: int  # its class, an index into the classes of the dataset
    box: tuple[float, float, float, float]  # left, top, width and height
    where: str  # file and line, or file and number, for messages
    mask: Any = None  # polygons as lists of x and y, or COCO's run-length encoding; None without
    is_relative: bool = False  # coordinates are normalized by the width and height of the image
    is_crowd: bool = False  # COCO's ``iscrowd``: a group that is not one object
    score: float = 1.0  # confidence of a prediction, in [0, 1]; 1 for an annotation

    def scale(self, size: Size) -> None:
        """Convert normalized coordinates to pixels."""
        if not self.is_relative:
            return
        height, width = size
        left, top, wide, high = self.box
        self.box = (left * width, top * height, wide * width, high * height)
        if self.mask is not None:
            factors = (width, height)
            self.mask = [[v * factors[i % 2] for i, v in enumerate(p)] for p in self.mask]
        self.is_relative = False


@dataclass
class Picture:
    """One image with its annotations."""

    path: Path
    objects: list[Object] = field(default_factory=list)
    recorded: Size | None = None  # height and width in the annotations, if given
    label_map: Path | None = None  # file with the class of every pixel, if there is one
    size: Size | None = None  # height and width of the upright image, once the image was inspected
    digest: bytes = b''  # hash of the file, once the image was inspected
    num_broken: int = 0  # number of skipped, broken annotations
    is_predicted: bool = False  # whether the objects or the label map are predictions of a model
    # class by value of the label map; by default the dataset's
    colors: dict[Any, int] | None = None


@dataclass
class DataSet:
    """A dataset: classes, images and annotations by split."""

    format: str  # name of the format, for messages
    root: Path  # the given folder
    classes: list[str]
    splits: dict[str, list[Picture]]  # images of 'train', 'val' and 'test', if they exist
    findings: Findings
    # class by value or by RGB color of the label maps, if there are any
    colors: dict[Any, int] = field(default_factory=dict)
    # names in the table of the label maps that are no classes, such as void
    ignored: Sequence[str] = ()
    # seed and fraction of a new validation split; empty if it existed
    made_split: dict[str, float] = field(default_factory=dict)
    # pixels of the label maps by class, once they were checked
    pixels: Counter[int] = field(default_factory=Counter)

    @property
    def has_label_maps(self) -> bool:
        return bool(self.colors)

    @property
    def has_masks(self) -> bool:
        """Whether every object has a mask."""
        masks = [item.mask for item in self.objects()]
        return bool(masks) and None not in masks

    @property
    def has_scores(self) -> bool:
        """Whether training objects have scores below 1."""
        return any(item.score < 1 for item in self.objects('train'))

    def objects(self, *splits: str) -> Iterator[Object]:
        """The objects of some splits; of all if none are named."""
        for name in splits or self.splits:
            for picture in self.splits[name]:
                yield from picture.objects

    def count(self, split: str) -> Counter[int]:
        """Objects of a split by class, without crowd regions."""
        return Counter(item.label for item in self.objects(split) if not item.is_crowd)


def in_words(size: Size) -> str:
    """Width x height, for messages."""
    return f'{size[1]} x {size[0]}'


def split_of(path: Path, root: Path) -> str:
    """The split named by a folder between ``root`` and ``path``; else 'train'."""
    return named_split(path, root) or 'train'


def named_split(path: Path, root: Path) -> str | None:
    """The split that a word in the folders of ``path`` below ``root`` names, the last one."""
    return split_in(path.relative_to(root).as_posix() if path.is_relative_to(root) else '')


def split_of_file(path: Path, root: Path) -> str | None:
    """The split that the name of a file, or else its folders, tell."""
    return split_in(path.stem) or named_split(path.parent, root)


def split_in(name: str) -> str | None:
    """The split that a word of a name or path tells: val for ``instances_val2017``."""
    name = NNUNET.sub(lambda found: ' train' if found[1] == 'r' else ' test', name)
    parts = BOTH.sub('train', CAMEL.sub(' ', name).lower()).split('/')
    words = [w for part in parts for w in WORD.findall(part) if w == part or w not in WHOLE]
    return next((SPLIT_NAMES[word] for word in reversed(words) if word in SPLIT_NAMES), None)
