"""Train a model of mmdet or mmseg as its config says."""

from argparse import ArgumentParser
from functools import partial
from typing import Any

from mmeffvit.engine.launch import train

from .arguments import add_allow_non_finite, add_run, new_parser, run_command, take_run_options


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, 'train configs/maskrcnn_swiftformer_l1.py --work-dir runs/1')
    add = parser.add_argument
    add_run(parser)
    add('--amp', action='store_true', help='train in mixed precision')
    add(
        '--resume',
        nargs='?',
        const='auto',
        metavar='CHECKPOINT',
        help='resume from CHECKPOINT, or from the latest valid one in the work dir',
    )
    add(
        '--auto-scale-lr',
        action='store_true',
        help='scale the learning rate with the total batch size',
    )
    add(
        '--no-check',
        dest='check',
        action='store_false',
        help='skip the check of the config before training',
    )
    add_allow_non_finite(parser)
    return parser


def run(config: str, **values: Any) -> None:
    train(config, take_run_options(values), **values)


main = partial(run_command, make_parser, run)
