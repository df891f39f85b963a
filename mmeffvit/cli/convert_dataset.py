"""Write the index of a data set in COCO format, or label maps, for use elsewhere.

DATA is read as `mmeffvit train DATA` reads it: COCO, YOLO, Pascal VOC, or images and label maps.
Nothing in it is copied or changed.
"""

from argparse import ArgumentParser
from functools import partial
from pathlib import Path
from typing import Any

from mmeffvit.data.prepare import FORMATS, PrepareOptions, prepare
from mmeffvit.data.split import FRACTION
from mmeffvit.utils.text import counted

from .arguments import new_parser, output_folder, run_command


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, 'convert-dataset data/bolts data/bolts_coco')
    parser.add_argument('data', type=Path, help='a folder, a data.yaml or a JSON file')
    parser.add_argument('out', type=output_folder, help='folder to write to')
    parser.add_argument(
        '--label-maps',
        dest='for_segmentor',
        action='store_true',
        help='write a PNG with the class of every pixel for each image, rather than COCO files',
    )
    parser.add_argument('--seed', type=int, default=0, help='seed of a validation split')
    add_reading(parser)
    return parser


def add_reading(parser: Any) -> None:
    """How a data set is read."""
    add = parser.add_argument
    add('--format', choices=FORMATS, help='of the data; by default it is recognized')
    add('--skip-broken', action='store_true', help='leave out images with a fault')
    add(
        '--keep-partly-broken',
        action='store_true',
        help='with --skip-broken, keep images that have intact objects, too',
    )
    add(
        '--val-fraction',
        dest='fraction',
        type=float,
        metavar='FRACTION',
        help='share of the images held out where there is no validation split (default: 0.2)',
    )


def run(data: Path, out: Path, fraction: float | None, **options: Any) -> None:
    options['fraction'] = FRACTION if fraction is None else fraction
    _, splits = prepare(data, out, PrepareOptions(**options))
    for split in splits.values():
        images = counted(split.count, 'image')
        print(f'{split.annotations}: {images}, names relative to {split.images}')


main = partial(run_command, make_parser, run)
