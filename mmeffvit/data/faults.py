"""Faults of datasets in three grades, with their fixes, and collected findings."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from mmeffvit.errors import UserError
from mmeffvit.utils.text import counted

EXAMPLES = 3  # kept of every fault in a file, which can be large
SHOWN = 5  # findings printed per fault of a user's dataset; a file has all
NOTE = math.inf
LOST = 0.05  # of all objects or images, up to which losing them is a warning


class Grade(Enum):
    """How much a finding matters."""

    NOTE = 'note'  # training is right without a change
    WARNING = 'warning'  # some objects or images are left out
    ERROR = 'ERROR'  # the data would teach something wrong, or too much is lost


@dataclass(frozen=True)
class Fault:
    """A type of fault or note."""

    what: str  # what is counted, in plural
    fix: str  # what the user can do
    left_out: str = ''  # what is left out, in the singular; empty if nothing is, or it cannot be
    # fraction of all records up to which it is only a note, as is a single one; NOTE for always
    tolerated: float = 0.0
    # whether a single one can stop or crash a run, so that a run is not started
    stops: bool = False
    misleads: bool = False  # whether the others may be wrong as well, so that it is always an error


def note(what: str, fix: str, left_out: str = '') -> Fault:
    """A type of finding that is always a note."""
    return Fault(what, fix, left_out, NOTE)


Add = Callable[[Fault, object], None]  # reports a fault and its place

UNPACK = 'copy, unpack or export them again, see docs/data.md'
WRITE = 'fix the program that wrote them'
PREFIX = 'copy them to the expected folder, or correct their names or data_prefix'
OBJECTS, IMAGES = 'object', 'image'  # that can be left out

# fmt: off
# files
PATH_MISSING = Fault('missing paths of the config', 'docs/data.md shows the layout')
OTHER_FILE = Fault('evaluators with a different annotation file', 'give both the same ann_file')
FILE_BROKEN = Fault('unreadable annotation files', UNPACK, IMAGES, stops=True)
LIST_BROKEN = Fault('unreadable lists of images or classes', UNPACK, stops=True)
NOT_UTF8 = Fault(
    'annotation files that are not UTF-8',
    'save them as UTF-8, such as with `iconv -f ISO-8859-1 -t UTF-8 OLD > NEW`',
    IMAGES, stops=True)
LINK_BROKEN = Fault(
    'annotation files that are broken links',
    'fetch them, `git annex get .` or `dvc pull`, or remove the links', IMAGES)
LABELS_SHARED = Fault(
    'annotations shared by images whose names differ only in the suffix',
    'rename the images, each with its own annotations', IMAGES)
FAILS_TO_LOAD = Fault('datasets that mmdet or mmseg cannot load', 'see its message')
EMPTY = Fault('datasets without images', PREFIX, stops=True)

# records
RECORD_BROKEN = Fault(
    'records with a missing field, a wrong type or a value out of bounds',
    WRITE, OBJECTS, stops=True)
LINE_BROKEN = Fault(
    'lines that are not a class number and a box of 4 or a polygon of 6 or more numbers',
    'write `class x y width height` or `class x1 y1 x2 y2 x3 y3 ...`', OBJECTS)
IMAGE_DUPLICATE = Fault('duplicate image ids', WRITE, stops=True)
ANNOTATION_DUPLICATE = Fault('duplicate annotation ids', WRITE, stops=True)
ANNOTATION_ID_ZERO = note(
    'annotations with id 0, which the COCO metric reads as "no match"',
    'start at 1')
CATEGORY_DUPLICATE = Fault('duplicate category ids or names', WRITE, stops=True)
IMAGE_UNKNOWN = Fault('annotations of unknown images', WRITE, OBJECTS)
CATEGORY_UNKNOWN = Fault('annotations of unknown categories', WRITE, OBJECTS, misleads=True)
FILLED = note(
    'missing fields that follow from the others, and are filled in for training',
    'nothing, or write them for tests and for other programs')
LINE_DUPLICATE = note(
    'annotations that are repeated, and read once',
    'nothing, or remove them', left_out='repeated annotation')
SHAPE_UNREAD = note(
    'points, lines, keypoints and other shapes that are no boxes or outlines, and not read',
    'nothing, or draw boxes or polygons', left_out='other shape')
CROWD = note(
    'crowd regions and difficult objects, which are ignored in training and validation',
    'nothing; --crowds-are-objects reads them as objects', left_out='crowd region')
TEST_MISSING = note(
    'test splits that are named, but do not exist, and are not used',
    'nothing, or remove the line `test`')
IMAGE_UNLISTED = note(
    'images without annotations of their own, or in no list, which are not used',
    'nothing; an image that shows background only needs an empty annotation',
    left_out='unused image')

# classes
CLASS_RANGE = Fault(
    'class numbers without a name',
    'number classes from 0 in the order of `names` in data.yaml, or add the missing names',
    OBJECTS, misleads=True)
CLASS_MISSING = Fault(
    'classes of the config without a category in the file',
    'set metainfo=dict(classes=...) of the dataset to names in the file', stops=True)
CLASS_ORDER = Fault(
    'classes in a different order than in the file, so that names are mixed up',
    'use the order of the file in metainfo=dict(classes=...)')
CLASS_IGNORED = note(
    'classes of the annotations that the config does not have, and are ignored',
    'add them to metainfo=dict(classes=...) if they are needed')
CLASS_EMPTY = note(
    'classes without annotations, which cannot be learned',
    'annotate some, or remove the class')
CLASS_FEW = note(
    'classes with fewer than five objects to train on',
    'annotate more, or merge it with another class')

# boxes and masks
BOX_PIXELS = Fault(
    'boxes in pixels, where YOLO has fractions of the image',
    'divide x and width by the width of the image, y and height by its height', OBJECTS)
BOX_OUTSIDE = Fault(
    'boxes or polygons that reach outside of their image',
    'clip them to it; if all are wrong, the annotations are of other images or of another size',
    OBJECTS)
BOX_FAR = Fault('boxes that exceed their image by more than its size', WRITE, OBJECTS, stops=True)
BOX_CLIPPED = note(
    'boxes or polygons that reach up to two pixels outside of their image, and are clipped',
    'nothing')
BOX_EMPTY = Fault(  # COCO 2017 itself has a few, and mmdet ignores them
    'boxes with zero area or a side below one pixel, which are ignored',
    'remove or redraw them', OBJECTS, 1e-2)
MASK_BROKEN = Fault('masks that cannot be decoded', 'export them again', OBJECTS, stops=True)
MASK_SHORT = Fault(
    'polygons with less than three points or an odd number of values, which mmdet ignores',
    'remove or redraw them', OBJECTS)
MASK_PART = note(
    'parts of polygons with less than three points, which are ignored',
    'nothing, or remove them', left_out='part of a polygon')
MASK_SIZE = Fault(
    'masks with a different size than their image',
    'export them again', OBJECTS, stops=True)
MASK_ABSENT = Fault(
    'objects without a mask, which this model is trained on',
    'draw their outlines, or choose a model that is trained on boxes', OBJECTS, stops=True)
WITHOUT_OBJECTS = note('images without objects', 'nothing, if they show background only')

# images
IMAGE_MISSING = Fault('missing images', PREFIX, IMAGES)
IMAGE_OUTSIDE = Fault(
    'images that are not in the folder of the dataset',
    'copy them into it and name them relative to it, or give the folder that has all of them',
    IMAGES)
IMAGE_AMBIGUOUS = Fault(
    'names shared by images in several sub-folders',
    'name the sub-folder in the annotation, or rename the images', IMAGES)
IMAGE_LISTED_TWICE = Fault(
    'images listed more than once',
    'merge their annotations, or remove the duplicates', IMAGES)
IMAGE_IRREGULAR = Fault(
    'images that are not regular files, but folders, pipes or devices',
    'remove them', IMAGES, stops=True)
IMAGE_BROKEN = Fault('truncated or unreadable images', UNPACK, IMAGES)
IMAGE_CUT = note(
    'JPEG images whose last bytes are missing, and which are read as OpenCV does',
    'nothing, or copy them again')
NAME_SPELLED = note(
    'images whose name is spelled differently in the annotations (case, accents, escapes, suffix)',
    'nothing; other programs may not find them')
NAME_OLD = note(
    'annotation files that name another image than the one of their own name, which is used',
    'nothing, if files were renamed; else give each the name of its image')
IMAGE_DEEP = Fault(
    'images with 16 bits per channel, of which training would use the upper 8',
    'scale their values and save them with 8 bits', IMAGES)
IMAGE_CMYK = Fault('images in CMYK, whose colors depend on the program', 'save them in RGB', IMAGES)
IMAGE_ROTATED = Fault(
    'images that EXIF rotates, annotated as they were before',
    'rotate the pixels and remove the tag, `exiftran -ai`, then annotate them again, or swap '
    'width and height and rotate the boxes', IMAGES)
EXIF_UPRIGHT = note(
    'images that EXIF rotates or mirrors; annotations are assumed to be of the upright image',
    'check that they fit: `mmeffvit browse CONFIG`')
SIZE_SWAPPED = Fault(
    'images whose width and height are swapped in the annotations',
    'swap them; check the boxes as well: `mmeffvit browse CONFIG`', IMAGES)
SIZE_DIFFERS = Fault(
    'images with a different size than annotated',
    'annotate these images, or copy those that were annotated', IMAGES)
NAME_BROKEN = Fault('file names that are not UTF-8', 'rename the files', IMAGES)
OVERLAP = Fault(
    'images that are in training and in validation, so that validation measures nothing',
    'remove them from one of the two', 'validation image')

# label maps
MAP_MISSING = Fault('images without a label map', 'draw one, or remove the image', IMAGES)
MAPS_SEVERAL = Fault('images with several label maps', 'merge them into one', IMAGES)
MAP_BROKEN = Fault('truncated or unreadable label maps', UNPACK, IMAGES)
MAP_SIZE = Fault(
    'label maps with a different size than their image',
    'export them in the size of the image, without interpolation', IMAGES)
MAP_GRAY = note(
    'label maps with the same values in several channels, of which one is read',
    'nothing; other programs may need one channel')
MAP_VALUE = Fault(
    'label maps with values or colors that are not classes',
    'add them to the table of classes, or compare them with metainfo and reduce_zero_label; a '
    'JPEG or a resized map has blended ones: export it again', IMAGES)
# fmt: on


@dataclass(kw_only=True)
class Findings:
    """The faults and notes of a dataset."""

    name: str = ''  # in a config, the splits that use it, such as 'train' or 'val, test'
    source: str = ''  # in a config, the class of the dataset and what it reads
    num_records: int = 0  # objects, or other records, that shares are of
    num_images: int = 0
    strict: bool = False  # whether warnings are errors
    counts: Counter[Fault] = field(default_factory=Counter)
    # file and line, or what else names the place, by fault
    places: dict[Fault, list[str]] = field(default_factory=dict)

    def add(self, fault: Fault, place: object) -> None:
        self.counts[fault] += 1
        # a name may contain unprintable characters
        text = str(place).encode(errors='backslashreplace').decode()
        self.places.setdefault(fault, []).append(' '.join(text.split()))

    def grade(self, fault: Fault) -> Grade:
        """How much a type of finding matters, as often as it was found."""
        count = self.counts[fault]
        allowed = max(1, fault.tolerated * (self.num_records or 1)) if fault.tolerated else 0
        if count <= allowed:
            return Grade.NOTE
        base = self.num_records if fault.left_out == OBJECTS else self.num_images
        is_lost = fault.left_out and not fault.misleads and count <= LOST * base
        return Grade.WARNING if is_lost and not self.strict else Grade.ERROR

    def of(self, *grades: Grade) -> list[Fault]:
        """The types of some grades."""
        return [fault for fault in self.counts if self.grade(fault) in grades]

    @property
    def faults(self) -> list[Fault]:
        """The types that are errors."""
        return self.of(Grade.ERROR)

    def ignored(self) -> str:
        """Names and numbers of what is not used, without a loss; empty if there is nothing."""
        notes = [fault for fault in self.of(Grade.NOTE) if fault.left_out]
        return ', '.join(counted(self.counts[fault], fault.left_out) for fault in notes)

    def named(self, fault: Fault) -> str:
        """What is wrong, and how often."""
        return f'{fault.what} ({self.counts[fault]:,})'

    def describe(self, shown: int | None = SHOWN) -> str:
        """A paragraph for every type, errors last, with its first places; None shows all."""
        lines = []
        order = list(Grade)
        for fault in sorted(self.counts, key=lambda fault: order.index(self.grade(fault))):
            places, count = self.places[fault][:shown], self.counts[fault]
            lines.append(f'{self.grade(fault).value}: {self.named(fault)}')
            lines += [f'    {place}' for place in places]
            lines += [f'    and {count - len(places):,} more'] if count > len(places) else []
            lines.append(f'  fix: {fault.fix}')
        return '\n'.join(lines)

    @property
    def title(self) -> str:
        """The dataset, for messages."""
        return f'{self.name} data: {self.source}' if self.name else 'the dataset'

    def advice(self, of_folder: str) -> str:
        """What a user can do; a config has none of a folder's options."""
        return '--no-check trains anyway' if self.name else of_folder

    def stop(self, *, skip_broken: bool) -> str:
        """Stop if there are errors, but skip what can be if ``skip_broken``.

        Returns:
            Names and numbers of what is left out; empty if nothing is.

        Raises:
            UserError: If there are errors that are not skipped.
        """
        fixed = [fault for fault in self.faults if not fault.left_out]
        if self.faults and (fixed or not skip_broken):
            hint = self.advice('--skip-broken skips them')
            rest = 'these cannot be skipped' if fixed else hint
            found = '; '.join(map(self.named, fixed or self.faults))
            raise UserError(f'{self.title} has errors, see above: {found}; {rest}')
        lost = self.of(Grade.WARNING, Grade.ERROR)
        return ', '.join(f'{counted(self.counts[f], f.left_out)} ({f.what})' for f in lost)

    def stop_run(self, others: Sequence[Fault] = ()) -> None:
        """Raise an error for faults that would stop or crash a run, or for ``others``.

        Raises:
            UserError: If there are any; the message has the first examples.
        """
        for fault, count in self.counts.items():
            if fault.stops or fault in others:
                rest = ' ...' if count > EXAMPLES else ''
                raise UserError(
                    f'{self.title}: {self.named(fault)}: '
                    f'{"; ".join(self.places[fault][:EXAMPLES])}{rest}. Fix: {fault.fix}; '
                    '`mmeffvit check CONFIG` lists all errors'
                )
