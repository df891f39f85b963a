"""Convert a dataset to COCO format or to label maps.

Reads all formats that `mmeffvit train` reads, see docs/data.md. The dataset is neither copied
nor changed.
"""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from mmeffvit.data.detect import FORMATS
from mmeffvit.data.prepare import PrepareOptions, prepare
from mmeffvit.utils.text import counted

from .arguments import new_parser, output_folder, take


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, 'convert-dataset data/bolts data/bolts_coco')
    parser.add_argument('data', type=Path, help='dataset: folder, data.yaml or JSON file')
    parser.add_argument('out', type=output_folder, help='output folder')
    parser.add_argument(
        '--label-maps',
        dest='for_segmentor',
        action='store_true',
        help='write label maps (PNG) instead of COCO files',
    )
    parser.add_argument('--seed', type=int, default=0, help='random seed of the validation split')
    add_reading(parser)
    add_folders(parser)
    return parser


def add_reading(parser: Any) -> None:
    """How a dataset is read."""
    add = parser.add_argument
    add('--format', choices=FORMATS, help='format of the dataset (default: detected)')
    add('--skip-broken', action='store_true', help='skip images with errors')
    add('--strict', action='store_true', help='treat warnings as errors')
    add(
        '--crowds-are-objects',
        action='store_true',
        help='read crowd regions and difficult objects as any other, not as ignored regions',
    )
    add(
        '--keep-partly-broken',
        action='store_true',
        help='with --skip-broken, keep images that also have valid objects',
    )
    add(
        '--val-fraction',
        dest='fraction',
        type=float,
        metavar='FRACTION',
        help='fraction of images for validation if the dataset has no such split (default: 0.2)',
    )


def add_folders(parser: Any) -> None:
    """Folders that cannot be guessed."""
    add = parser.add_argument
    add('--images', type=Path, metavar='DIR', help='folder of images in DATA; needs --masks')
    add('--masks', type=Path, metavar='DIR', help='folder of their label maps in DATA')


def run(data: Path, out: Path, **values: Any) -> None:
    _, splits = prepare(data, out, PrepareOptions(**take(values, PrepareOptions)))
    for split in splits.values():
        images = counted(split.count, 'image')
        print(f'{split.annotations}: {images}, names relative to {split.images}')
