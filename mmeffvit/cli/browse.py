"""Draw what a config feeds to its model, after augmentation, as contact sheets."""

from argparse import ArgumentParser
from functools import partial
from typing import Any

from mmeffvit.visualization.browse import BrowseOptions, browse

from .arguments import add_config, new_parser, output_folder, run_command


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, 'browse configs/maskrcnn_swiftformer_l1.py --split train')
    add = parser.add_argument
    add_config(parser)
    add(
        '--out-dir',
        type=output_folder,
        default='browse',
        dest='out',
        help='folder of the sheets (%(default)s)',
    )
    add('--split', choices=('train', 'val', 'test'), default='train')
    add('--number', type=int, default=12, help='samples to draw (%(default)s)')
    add('--seed', type=int, default=0, help='of order and augmentation')
    add('--original', action='store_true', help='put the image on the disk beside each')
    return parser


def run(config: str, **values: Any) -> None:
    browse(config, BrowseOptions(**values))


main = partial(run_command, make_parser, run)
