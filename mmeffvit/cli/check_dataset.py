"""Read the annotations of a config's data sets, open some images, and say what is broken.

Exit code 0 if nothing is broken, 1 if something is, 2 if the config cannot be read.
"""

from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from mmeffvit.checks.data.check import SPLITS, check_dataset
from mmeffvit.checks.data.images import Sample
from mmeffvit.config.load import open_config
from mmeffvit.errors import UserError

from .arguments import add_config, new_parser, run_command


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, 'check configs/maskrcnn_swiftformer_l1.py --all')
    add_config(parser)
    add_sample(parser)
    return parser


def add_sample(parser: ArgumentParser) -> None:
    """Which data sets and images are looked at."""
    add = parser.add_argument
    add('--splits', nargs='+', choices=SPLITS, default=SPLITS, help='which data sets to look at')
    add(
        '--num-images',
        type=int,
        default=50,
        metavar='N',
        help='images to open of every data set (default: 50)',
    )
    add('--all', action='store_true', help='open every image')
    add('--seed', type=int, default=0, help='which images are opened')


def check_and_print(
    config: str,
    cfg_options: Mapping[str, Any],
    splits: Sequence[str],
    num_images: int,
    all: bool,
    seed: int,
) -> int:
    """Check the data of a config file and print what was found."""
    if num_images < 0:
        raise UserError(f'--num-images is {num_images}; give 0 or more')
    sample = Sample(None if all else num_images, seed)
    reports = check_dataset(open_config(config, cfg_options), tuple(splits), sample)
    print(*reports, sep='\n\n')
    broken = [f'{report.counts[kind]} {kind.what}' for report in reports for kind in report.faults]
    print(f'\n{config}: ' + ('; '.join(broken) if broken else 'nothing is broken'))
    return 1 if broken else 0


main = partial(run_command, make_parser, check_and_print)
