"""Draw what a config feeds to its model, after augmentation, as contact sheets."""

from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mmeffvit.visualization.browse import BrowseOptions, browse

from .arguments import add_config, new_parser, run_command


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__)
    add_config(parser)
    parser.add_argument(
        '--out-dir', type=Path, default=Path('browse'), dest='out',
        help='folder of the sheets (%(default)s)',
    )  # fmt: skip
    parser.add_argument('--split', choices=('train', 'val', 'test'), default='train')
    parser.add_argument('--number', type=int, default=12, help='samples to draw (%(default)s)')
    parser.add_argument('--seed', type=int, default=0, help='of order and augmentation')
    parser.add_argument(
        '--original', action='store_true', help='put the image on the disk beside each'
    )
    return parser


def run(config: str, **values: Any) -> None:
    browse(config, BrowseOptions(**values))


def main(argv: Sequence[str] | None = None) -> None:
    run_command(make_parser(), run, argv)
