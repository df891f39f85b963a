"""What was found in one data set: kinds of damage, counted, with the first examples."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from mmeffvit.errors import UserError

EXAMPLES = 3  # printed of every kind
NOTE = math.inf


@dataclass(frozen=True)
class Kind:
    """One way in which data can be wrong.

    Args:
        what: What is counted, in the plural.
        cure: What a user can do.
        tolerated: The part of all records up to which data count as whole; ``NOTE`` if it is
            never wrong and worth knowing.
        stops: One is enough to stop a run, or to crash it: a run does not start with it.
    """

    what: str
    cure: str
    tolerated: float = 0.0
    stops: bool = False


UNPACK = 'unpack the archive again, see docs/datasets.md'
PREFIX = f'{UNPACK}, or correct data_prefix'
WRITE = 'correct the program that writes the annotation file'

NOT_THERE = Kind('paths of the config missing', 'docs/datasets.md shows the layout')
OTHER_FILE = Kind('evaluators reading another annotation file', 'give both the same ann_file')
FILE_UNREADABLE = Kind('annotation files unreadable', UNPACK, stops=True)
FAILS_TO_LOAD = Kind('data sets that the host cannot read', 'see its message')
EMPTY = Kind('data sets without an image', PREFIX, stops=True)

RECORD_INCOMPLETE = Kind(
    'records with a field missing, of another type or out of bounds', WRITE, stops=True
)
IMAGE_TWICE = Kind('image ids used again', WRITE, stops=True)
ANNOTATION_TWICE = Kind('annotation ids used again', WRITE, stops=True)
ANNOTATION_ZERO = Kind(
    'annotations with id 0, which the COCO metric takes for "no match"', 'count from 1', NOTE
)
CATEGORY_TWICE = Kind('category ids or names used again', WRITE, stops=True)
LISTED_TWICE = Kind('images listed again', 'remove the repeated lines')
IMAGE_UNKNOWN = Kind('annotations of an image that the file lacks', WRITE)
CATEGORY_UNKNOWN = Kind('annotations of a category that the file lacks', WRITE)
CLASS_MISSING = Kind(
    'classes of the config without a category in the file',
    'set metainfo=dict(classes=...) of the data set to names in the file',
)
CLASS_ORDER = Kind(
    'orders of classes unlike that of the file, so that names are mixed up',
    'give metainfo=dict(classes=...) the order of the file',
)
CLASS_LEFT_OUT = Kind(
    'annotations left out, since the config has no such class',
    'add the class to metainfo=dict(classes=...) if it is wanted',
    NOTE,
)
CLASS_EMPTY = Kind('classes without an annotation', 'nothing, if that is meant', NOTE)

BOX_OUTSIDE = Kind('boxes outside of their image', WRITE)
BOX_FAR = Kind('boxes that leave their image by more than its size', WRITE, stops=True)
# COCO 2017 has a few itself, and mmdet leaves them out
BOX_EMPTY = Kind(
    'boxes with a side below a pixel, or without area', 'the host leaves them out', 1e-3
)
MASK_BROKEN = Kind('masks that do not decode', WRITE, stops=True)
MASK_SHORT = Kind('polygons without three points, which mmdet leaves out of training', WRITE)
MASK_SIZE = Kind('masks of another size than their image', WRITE, stops=True)
WITHOUT_ANNOTATION = Kind('images without annotations', 'nothing, if that is meant', NOTE)

IMAGE_MISSING = Kind('images missing', PREFIX)
IMAGE_IRREGULAR = Kind(
    'images that are no regular files, but folders, pipes or devices', 'remove them', stops=True
)
IMAGE_BROKEN = Kind('images truncated or unreadable', UNPACK)
IMAGE_SIZE = Kind(
    'images of another size than the annotations say', f'{UNPACK}, or correct height and width'
)
LABELS_MISSING = Kind('label maps missing', PREFIX)
LABELS_ALONE = Kind('label maps without an image, which are never read', PREFIX)
LABELS_BROKEN = Kind('label maps truncated or unreadable', UNPACK)
LABELS_SIZE = Kind('label maps of another size than their image', WRITE)
LABELS_COLOR = Kind(
    'label maps with several channels', 'write one channel that holds the number of the class'
)
LABELS_VALUE = Kind(
    'label maps with values outside of the classes',
    'compare the values with metainfo classes and reduce_zero_label',
)


@dataclass
class Report:
    """What was found in one data set.

    Args:
        name: Where the config uses it, such as 'train' or 'val, test'.
        source: The class of the data set and what it reads.
        num_records: What ``tolerated`` parts are taken of.
        facts: Lines that say how much was read.
        table: Rows of the counts per class, the heading first.
        counts: How often each kind was found.
        examples: The first of every kind.
    """

    name: str
    source: str
    num_records: int = 0
    facts: list[str] = field(default_factory=list)
    table: list[Sequence[str]] = field(default_factory=list)
    counts: Counter[Kind] = field(default_factory=Counter)
    examples: dict[Kind, list[str]] = field(default_factory=dict)

    def add(self, kind: Kind, example: object) -> None:
        self.counts[kind] += 1
        examples = self.examples.setdefault(kind, [])
        if len(examples) < EXAMPLES:
            # a name may hold what no terminal prints
            text = str(example).encode(errors='backslashreplace').decode()
            examples.append(' '.join(text.split()))

    def stop(self, others: Sequence[Kind] = ()) -> None:
        """Refuse what no run can use, and ``others``.

        Raises:
            UserError: If there is any; the message has the first examples.
        """
        for kind, count in self.counts.items():
            if kind.stops or kind in others:
                rest = ' ...' if count > EXAMPLES else ''
                raise UserError(
                    f'{self.name} data: {self.source}: {count:,} {kind.what}: '
                    f'{"; ".join(self.examples[kind])}{rest}. Cure: {kind.cure}; '
                    '`tools/check_dataset.py` lists all faults'
                )

    @property
    def broken(self) -> list[Kind]:
        """What must be mended."""
        return [
            kind
            for kind, count in self.counts.items()
            if kind.tolerated != NOTE and count > kind.tolerated * self.num_records
        ]

    def __str__(self) -> str:
        lines = [f'{self.name}: {self.source}', *self.facts, *align(self.table)]
        broken = self.broken
        for kind in sorted(self.counts, key=lambda kind: kind in broken):  # the broken last
            examples = '; '.join(self.examples[kind])
            rest = ' ...' if self.counts[kind] > EXAMPLES else ''
            word = 'BROKEN' if kind in broken else 'note'
            lines.append(f'{word}: {self.counts[kind]} {kind.what}: {examples}{rest}')
            if kind in broken:
                lines.append(f'  cure: {kind.cure}')
        return '\n  '.join(lines)


def align(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows as lines, the first column flush left and the others flush right."""
    if not rows:
        return []
    first, *rest = (max(map(len, column)) for column in zip(*rows, strict=True))
    return [
        '  '.join([row[0].ljust(first), *(c.rjust(w) for c, w in zip(row[1:], rest, strict=True))])
        for row in rows
    ]
