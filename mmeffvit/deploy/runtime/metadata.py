"""The schema of an exported file's metadata, which are untrusted: keys, types and ranges."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mmeffvit.errors import UserError
from mmeffvit.utils.files import parse_json
from mmeffvit.utils.schema import (
    Field,
    are_names,
    check_fields,
    integer_from,
    is_dict,
    is_list,
    is_palette,
    number_from,
)
from mmeffvit.utils.text import MAX_NAME

MAX_SIDE = 2**15  # pixels of an input image: the limit of OpenCV's resize
MAX_LENGTH = 2**24  # characters of an entry
MAX_COLOR = 1e6
MAX_OBJECTS = 10_000  # of an image
TASKS = (
    'detection',
    'instance segmentation',
    'semantic segmentation',
    'classification',
    'features',
)
DECODERS = ('cv2', 'pillow')
INTERPOLATIONS = ('nearest', 'bilinear', 'bicubic', 'area', 'lanczos')
SOURCE = "the file's metadata"


def one_of(*values: object) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str | bool) and value in values


def list_of(is_valid: Callable[[Any], bool], length: int | None = None) -> Callable[[Any], bool]:
    return lambda v: is_list(v) and length in (None, len(v)) and all(map(is_valid, v))


is_pair = list_of(integer_from(1, MAX_SIDE), 2)
is_color = list_of(number_from(-MAX_COLOR, MAX_COLOR), 3)
SIDES = f'two integers from 1 to {MAX_SIDE:,}'
# fmt: off
FIELDS = (
    Field('task', one_of(*TASKS), f'one of {", ".join(TASKS)}'),
    Field('network_colors', one_of('RGB', 'BGR'), 'RGB or BGR'),
    Field('classes', are_names, f'a list of printable names of up to {MAX_NAME} characters'),
    Field('palette', is_palette, 'a list of colors of three integers from 0 to 255'),
    Field('mean', is_color, 'three numbers'),
    Field('std', is_color, 'three numbers'),
    Field('pad_value', number_from(-MAX_COLOR, MAX_COLOR), 'a number'),
    Field('mask_threshold', number_from(0, 1), 'a number from 0 to 1'),
    Field('score_threshold', number_from(0, 1), 'a number from 0 to 1'),
    Field('iou_threshold', number_from(0, 1), 'a number from 0 to 1'),
    Field('max_per_img', integer_from(1, MAX_OBJECTS), f'an integer from 1 to {MAX_OBJECTS:,}'),
    Field('class_agnostic', one_of(True, False), 'true or false'),
    Field('label_threshold', number_from(0.01, 0.99), 'a number from 0.01 to 0.99'),
    Field('align_corners', one_of(True, False), 'true or false'),
    Field('size_divisor', integer_from(1, 2**10), 'an integer from 1 to 1,024'),
    Field('label_offset', integer_from(0, 1), '0 or 1'),
    Field('category_ids', list_of(integer_from(0, 2**53)), 'a list of integers from 0'),
    Field('resize', is_dict, 'an object'),  # see mmeffvit.deploy.graphs.metadata.resize_of
    Field('resize.decoder', one_of(*DECODERS), f'one of {", ".join(DECODERS)}'),
    Field('resize.scale', is_pair, SIDES),
    Field('resize.keep_ratio', one_of(True, False), 'true or false'),
    Field('resize.truncated', one_of(True, False), 'true or false'),
    Field('resize.interpolation', one_of(*INTERPOLATIONS), f'one of {", ".join(INTERPOLATIONS)}'),
    Field('resize.backend', one_of('cv2', 'pillow'), 'cv2 or pillow'),
    Field('resize.short_side', integer_from(1, MAX_SIDE), f'an integer from 1 to {MAX_SIDE:,}'),
    Field('resize.crop', is_pair, SIDES),
    Field('resize.divisor', integer_from(1, 2**10), 'an integer from 1 to 1,024'),
    Field('resize.rounding', one_of('down', 'up'), 'down or up'),
    Field('resize.pad', is_pair, SIDES),
    Field('resize.pad_to_square', one_of(True, False), 'true or false'),
    Field('resize.pad_divisor', integer_from(1, 2**10), 'an integer from 1 to 1,024'),
    Field('resize.pad_value', lambda v: number_from(-MAX_COLOR, MAX_COLOR)(v) or is_color(v),
          'one or three numbers'),
)
# fmt: on
TEXTS = ('task', 'network_colors')  # all others are JSON
NO_RESIZE = dict(
    decoder='cv2', scale=None, keep_ratio=False, truncated=False, interpolation='bilinear',
    backend='cv2', divisor=1, rounding='down', pad=None, pad_to_square=False, pad_divisor=1,
    pad_value=0, short_side=None, crop=None,
)  # fmt: skip


@dataclass(frozen=True)
class Metadata:
    """The metadata of a file that its users need, with defaults for missing entries."""

    task: str = ''  # one of TASKS, or empty
    network_colors: str = 'RGB'  # channel order of the network, 'RGB' or 'BGR'
    classes: tuple[str, ...] = ()  # class names by label
    palette: list[list[int]] | None = None  # RGB colors by label; None if there are none
    mean: Sequence[float] = (0, 0, 0)  # mean color in the channel order of the network
    std: Sequence[float] = (1, 1, 1)  # standard deviation of the colors, in the same order
    pad_value: float = 0  # value of the padding after normalization
    mask_threshold: float = 0.5  # lowest probability of the pixels of an object
    score_threshold: float = 0.0  # lowest score of an object
    iou_threshold: float = 0.5  # IoU threshold of NMS
    max_per_img: int = 100  # largest number of objects
    class_agnostic: bool = False  # whether NMS ignores the classes
    label_threshold: float = 0.5  # lowest probability of label 1, if one logit has two labels
    align_corners: bool = False  # whether logits are resized with aligned corners
    size_divisor: int = 1  # sides are padded to multiples of it inside the file
    label_offset: int = 0  # 1 if 0 is no class in the label maps of the dataset, otherwise 0
    category_ids: Sequence[int] = ()  # COCO category ids by label; empty if they are not known
    resize: Mapping[str, Any] = field(default_factory=dict)  # see `graphs.metadata.resize_of`

    @property
    def fill(self) -> tuple[float, ...]:
        """The color of ``pad_value`` in BGR, to pad images of a fixed size with."""
        color = [m + s * self.pad_value for m, s in zip(self.mean, self.std, strict=True)]
        return tuple(color[::-1] if self.network_colors == 'RGB' else color)


def parse_metadata(texts: Mapping[str, str]) -> Metadata:
    """Parse and check the metadata of a file; entries that are not in the schema are ignored.

    Raises:
        UserError: If an entry is not of the right type or not in its range.
    """
    given: dict[str, Any] = {}
    for key, text in texts.items():
        if key not in Metadata.__dataclass_fields__:
            continue
        if len(text) > MAX_LENGTH:
            raise UserError(f'{SOURCE}: {key} has {len(text):,} characters, and {MAX_LENGTH:,} '
                            'are allowed')  # fmt: skip
        given[key] = text if key in TEXTS else parse_json(text, f'{SOURCE}: {key}')
    check_fields(given, FIELDS, SOURCE)
    values = {key: value for key, value in given.items() if value is not None}
    resize = {k: v for k, v in values.get('resize', {}).items() if k in NO_RESIZE and v is not None}
    values |= dict(resize={**NO_RESIZE, **resize}, classes=tuple(values.get('classes', ())))
    found = Metadata(**values)
    if found.category_ids and len(found.category_ids) != len(found.classes):
        raise UserError(f'{SOURCE}: category_ids and classes differ in length')
    return found
