"""What can be wrong with a user's data set, with the cure of each, and what was found."""

from dataclasses import dataclass, field

from mmeffvit.checks.data.report import NOTE, Kind
from mmeffvit.errors import UserError

SHOWN = 5  # findings printed per kind; a file has all


@dataclass(frozen=True)
class Fault(Kind):
    """A kind of fault.

    Args:
        left_out: What ``--skip-broken`` leaves out; empty if nothing can be.
    """

    left_out: str = ''


FILE_BROKEN = Fault('annotation files that cannot be read', 'export them again', left_out='images')
NOT_UTF8 = Fault(
    'annotation files that are not UTF-8', 'save them as UTF-8: iconv -t UTF-8', left_out='images'
)
RECORD_BROKEN = Fault(
    'records with a missing or wrong value', 'fix the program that wrote them', left_out='objects'
)
LINE_BROKEN = Fault(
    'lines that are not a class number and a box of 4 or a polygon of 6 or more numbers',
    'write `class x y width height` or `class x1 y1 x2 y2 x3 y3 ...`',
    left_out='objects',
)
CLASS_RANGE = Fault(
    'class numbers without a name',
    'number classes from 0 in the order of `names` in data.yaml, or add the missing names',
    left_out='objects',
)
CATEGORY_UNKNOWN = Fault(
    'annotations of a category or an image that the file does not have',
    'add it to the file, or remove the annotation',
    left_out='objects',
)
BOX_PIXELS = Fault(
    'boxes in pixels, where YOLO has fractions of the image',
    'divide x and width by the width of the image, y and height by its height',
    left_out='objects',
)
BOX_OUTSIDE = Fault(
    'boxes or polygons that reach outside of their image',
    'clip them to it; if all are wrong, the annotations are of other images or of another size',
    left_out='objects',
)
BOX_EMPTY = Fault(
    'boxes less than a pixel wide or high', 'remove or redraw them', left_out='objects'
)
POLYGON_SHORT = Fault(
    'polygons with less than three points', 'remove or redraw them', left_out='objects'
)
MASK_BROKEN = Fault('masks that cannot be decoded', 'export them again', left_out='objects')
MASK_ABSENT = Fault(
    'objects without a mask, which this model is trained on',
    'draw their outline, or choose a model that is trained on boxes',
    left_out='objects',
)

IMAGE_MISSING = Fault(
    'annotated images that do not exist',
    'copy them to where they are looked for, or correct their names',
    left_out='images',
)
IMAGE_AMBIGUOUS = Fault(
    'names that images in several sub-folders have',
    'name the sub-folder in the annotation, or rename the images',
    left_out='images',
)
IMAGE_LISTED_TWICE = Fault(
    'images that are listed more than once', 'join their annotations', left_out='images'
)
IMAGE_BROKEN = Fault(
    'images that cannot be decoded', 'copy them again, or remove them', left_out='images'
)
IMAGE_DEEP = Fault(
    'images of 16 bits a channel, of which training would see the upper 8',
    'scale their values and save them with 8 bits',
    left_out='images',
)
IMAGE_CMYK = Fault(
    'images in CMYK, whose colors every program shows differently',
    'save them in RGB',
    left_out='images',
)
IMAGE_ROTATED = Fault(
    'images that EXIF rotates, annotated as they were before',
    'rotate the pixels and remove the tag, `exiftran -ai`, then annotate them again, or exchange '
    'width and height and turn the boxes',
    left_out='images',
)
SIZE_SWAPPED = Fault(
    'images whose width and height are exchanged in the annotations',
    'exchange them back; look at the boxes too: `mmeffvit browse CONFIG`',
    left_out='images',
)
SIZE_DIFFERS = Fault(
    'images of another size than annotated',
    'annotate the images that are there, or copy those that were annotated',
    left_out='images',
)
NAME_BROKEN = Fault('file names that are not UTF-8', 'rename the files', left_out='images')
OVERLAP = Fault(
    'images that are in training and in validation, so that validation says nothing',
    'remove them from one of the two',
    left_out='images of the validation',
)

MAP_MISSING = Fault(
    'images without a label map', 'draw one, or remove the image', left_out='images'
)
MAP_BROKEN = Fault('label maps that cannot be decoded', 'export them again', left_out='images')
MAP_SIZE = Fault(
    'label maps of another size than their image',
    'export them in the size of the image, without interpolation',
    left_out='images',
)
MAP_VALUE = Fault(
    'label maps with values or colors that are not classes',
    'add them to the table of classes; a JPEG or a resized map has blended ones: export it again',
    left_out='images',
)

WITHOUT_OBJECTS = Fault(
    'images without objects', 'nothing, if they show background only', tolerated=NOTE
)
CLASS_EMPTY = Fault(
    'classes without an object, which nothing can be learned of',
    'annotate some, or remove the class',
    tolerated=NOTE,
)
BYTE_ORDER_MARK = Fault(
    'files that begin with a byte order mark, read without it',
    'save them as UTF-8 without BOM for other programs',
    tolerated=NOTE,
)
LINE_ENDS = Fault(
    "files with Windows' line ends, read as others",
    'nothing; other programs may want `dos2unix`',
    tolerated=NOTE,
)
EXIF_UPRIGHT = Fault(
    'images that EXIF rotates; their annotations are taken for those of the upright image',
    'look whether they fit: `mmeffvit browse CONFIG`',
    tolerated=NOTE,
)


@dataclass
class Findings:
    """Everything that was found, in the order it was.

    Args:
        by_kind: File and line, or what else names the place, for every kind.
    """

    by_kind: dict[Kind, list[str]] = field(default_factory=dict)

    def add(self, kind: Kind, where: object) -> None:
        # a name may contain unprintable characters
        text = str(where).encode(errors='backslashreplace').decode()
        self.by_kind.setdefault(kind, []).append(text)

    def describe(self, shown: int | None = SHOWN) -> str:
        """A paragraph for every kind, faults last; ``shown`` findings of each, None for all."""
        lines = []
        for kind in sorted(self.by_kind, key=lambda kind: kind.tolerated != NOTE):
            found = self.by_kind[kind]
            word = 'note' if kind.tolerated == NOTE else 'FAULT'
            lines.append(f'{word}: {len(found):,} {kind.what}')
            lines += [f'    {text}' for text in found[:shown]]
            if shown is not None and len(found) > shown:
                lines.append(f'    and {len(found) - shown:,} more')
            lines.append(f'  cure: {kind.fix}')
        return '\n'.join(lines)

    def stop(self, *, skip_broken: bool = False) -> str:
        """Refuse to go on with faults.

        Args:
            skip_broken: Go on without what is broken, where that is possible.

        Returns:
            What is left out, with its number; empty if nothing is.

        Raises:
            UserError: If there are faults that are not skipped.
        """
        faults = {kind: len(f) for kind, f in self.by_kind.items() if kind.tolerated != NOTE}
        fixed = [kind for kind in faults if not getattr(kind, 'left_out', '')]
        if faults and (fixed or not skip_broken):
            counts = '; '.join(f'{faults[kind]:,} {kind.what}' for kind in fixed or faults)
            cure = 'these cannot be skipped' if fixed else '--skip-broken goes on without them'
            raise UserError(f'the data set has faults, see above: {counts}; {cure}')
        return ', '.join(f'{n:,} {kind.left_out} ({kind.what})' for kind, n in faults.items())
