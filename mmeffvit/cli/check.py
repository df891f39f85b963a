"""Check that a config fits together, then the annotations and some images of its data sets.

Exit code 0 if nothing is wrong, 1 if something is, 2 if the config cannot be read.
"""

from argparse import ArgumentParser
from collections.abc import Mapping
from functools import partial
from typing import Any

from . import check_config, check_dataset
from .arguments import add_config, new_parser, run_command


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, 'check configs/maskrcnn_swiftformer_l1.py --all')
    add_config(parser)
    parser.add_argument('--no-data', dest='data', action='store_false', help='the config alone')
    check_dataset.add_sample(parser)
    return parser


def run(config: str, cfg_options: Mapping[str, Any], data: bool, **values: Any) -> int:
    code = check_config.check_and_print(config, cfg_options)
    if data:
        print()
        code |= check_dataset.check_and_print(config, cfg_options, **values)
    return code


main = partial(run_command, make_parser, run)
