"""The report on one data set: types of faults, with counts and the first examples."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from mmeffvit.errors import UserError

EXAMPLES = 3  # printed per kind
NOTE = math.inf


@dataclass(frozen=True)
class Kind:
    """A type of fault or note.

    Args:
        what: What is counted, in plural.
        fix: What the user can do.
        tolerated: Fraction of all records up to which it is only a note; ``NOTE`` for always.
        stops: Whether a single one can stop or crash a run, so that a run is not started.
    """

    what: str
    fix: str
    tolerated: float = 0.0
    stops: bool = False


UNPACK = 'unpack the archive again, see docs/datasets.md'
PREFIX = f'{UNPACK}, or correct data_prefix'
WRITE = 'fix the program that writes the annotation file'

PATH_MISSING = Kind('missing paths of the config', 'docs/datasets.md shows the layout')
OTHER_FILE = Kind('evaluators with a different annotation file', 'give both the same ann_file')
FILE_UNREADABLE = Kind('unreadable annotation files', UNPACK, stops=True)
FAILS_TO_LOAD = Kind('data sets that mmdet or mmseg cannot load', 'see its message')
EMPTY = Kind('data sets without images', PREFIX, stops=True)

RECORD_INCOMPLETE = Kind(
    'records with a missing field, a wrong type or a value out of bounds', WRITE, stops=True
)
IMAGE_DUPLICATE = Kind('duplicate image ids', WRITE, stops=True)
ANNOTATION_DUPLICATE = Kind('duplicate annotation ids', WRITE, stops=True)
ANNOTATION_ID_ZERO = Kind(
    'annotations with id 0, which the COCO metric reads as "no match"', 'start at 1', NOTE
)
CATEGORY_DUPLICATE = Kind('duplicate category ids or names', WRITE, stops=True)
LISTED_DUPLICATE = Kind('images listed more than once', 'remove the repeated lines')
IMAGE_UNKNOWN = Kind('annotations of unknown images', WRITE)
CATEGORY_UNKNOWN = Kind('annotations of unknown categories', WRITE)
CLASS_MISSING = Kind(
    'classes of the config without a category in the file',
    'set metainfo=dict(classes=...) of the data set to names in the file',
)
CLASS_ORDER = Kind(
    'classes in a different order than in the file, so that names are mixed up',
    'use the order of the file in metainfo=dict(classes=...)',
)
CLASS_IGNORED = Kind(
    'annotations ignored, since the config does not have their class',
    'add the class to metainfo=dict(classes=...) if it is needed',
    NOTE,
)
CLASS_EMPTY = Kind('classes without annotations', 'nothing, if this is intended', NOTE)

BOX_OUTSIDE = Kind('boxes outside of their image', WRITE)
BOX_FAR = Kind('boxes that exceed their image by more than its size', WRITE, stops=True)
# COCO 2017 itself has a few, and mmdet ignores them
BOX_EMPTY = Kind('boxes with zero area or a side below one pixel', 'mmdet ignores them', 1e-3)
MASK_BROKEN = Kind('masks that cannot be decoded', WRITE, stops=True)
MASK_SHORT = Kind('polygons with less than three points, which mmdet ignores in training', WRITE)
MASK_SIZE = Kind('masks with a different size than their image', WRITE, stops=True)
WITHOUT_ANNOTATION = Kind('images without annotations', 'nothing, if this is intended', NOTE)

IMAGE_MISSING = Kind('missing images', PREFIX)
IMAGE_IRREGULAR = Kind(
    'images that are not regular files, but folders, pipes or devices', 'remove them', stops=True
)
IMAGE_BROKEN = Kind('truncated or unreadable images', UNPACK)
IMAGE_SIZE = Kind(
    'images with a different size than annotated', f'{UNPACK}, or correct height and width'
)
LABELS_MISSING = Kind('missing label maps', PREFIX)
LABELS_UNUSED = Kind('label maps without an image, which are not used', PREFIX)
LABELS_BROKEN = Kind('truncated or unreadable label maps', UNPACK)
LABELS_SIZE = Kind('label maps with a different size than their image', WRITE)
LABELS_COLOR = Kind(
    'label maps with several channels', 'write one channel with the class of every pixel'
)
LABELS_VALUE = Kind(
    'label maps with values that are not classes',
    'compare the values with the classes in metainfo and with reduce_zero_label',
)


@dataclass
class Report:
    """The faults and notes of one data set.

    Args:
        name: The splits that use it, such as 'train' or 'val, test'.
        source: The class of the data set and what it reads.
        num_records: Number of records, the base of ``Kind.tolerated``.
        facts: Lines on what was read.
        table: Rows of counts per class, starting with the heading.
        counts: Number of findings per kind.
        examples: The first findings of every kind.
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
            # a name may contain unprintable characters
            text = str(example).encode(errors='backslashreplace').decode()
            examples.append(' '.join(text.split()))

    def stop(self, others: Sequence[Kind] = ()) -> None:
        """Raise an error for faults that would stop a run, or for ``others``.

        Raises:
            UserError: If there are any; the message has the first examples.
        """
        for kind, count in self.counts.items():
            if kind.stops or kind in others:
                rest = ' ...' if count > EXAMPLES else ''
                raise UserError(
                    f'{self.name} data: {self.source}: {count:,} {kind.what}: '
                    f'{"; ".join(self.examples[kind])}{rest}. Fix: {kind.fix}; '
                    '`tools/check_dataset.py` lists all faults'
                )

    @property
    def faults(self) -> list[Kind]:
        """The kinds that are faults, not notes."""
        return [
            kind
            for kind, count in self.counts.items()
            if kind.tolerated != NOTE and count > kind.tolerated * self.num_records
        ]

    def __str__(self) -> str:
        lines = [f'{self.name}: {self.source}', *self.facts, *align(self.table)]
        faults = self.faults
        for kind in sorted(self.counts, key=lambda kind: kind in faults):  # faults last
            examples = '; '.join(self.examples[kind])
            rest = ' ...' if self.counts[kind] > EXAMPLES else ''
            word = 'FAULT' if kind in faults else 'note'
            lines.append(f'{word}: {self.counts[kind]} {kind.what}: {examples}{rest}')
            if kind in faults:
                lines.append(f'  fix: {kind.fix}')
        return '\n  '.join(lines)


def align(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows as lines, with the first column left-aligned and the others right-aligned."""
    if not rows:
        return []
    first, *rest = (max(map(len, column)) for column in zip(*rows, strict=True))
    return [
        '  '.join([row[0].ljust(first), *(c.rjust(w) for c, w in zip(row[1:], rest, strict=True))])
        for row in rows
    ]
