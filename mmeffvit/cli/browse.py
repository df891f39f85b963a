"""Show augmented samples of a config as contact sheets."""

from argparse import ArgumentParser
from typing import Any

from mmeffvit.analysis.browse import BrowseOptions, browse

from .arguments import add_config, add_out_dir, check_seed, new_parser


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, 'browse configs/maskrcnn_swiftformer_l1.py --split train')
    add = parser.add_argument
    add_config(parser)
    add_out_dir(parser, 'browse')
    add('--split', choices=('train', 'val', 'test'), default='train', help='default: train')
    add('--num-images', dest='number', type=int, default=12, metavar='N',
        help='number of samples (default: %(default)s)')  # fmt: skip
    add('--seed', type=int, default=0, help='random seed of sampling and augmentation')
    add('--original', action='store_true', help='show the original image next to each sample')
    return parser


def run(config: str, **values: Any) -> None:
    check_seed(values['seed'])
    browse(config, BrowseOptions(**values))
