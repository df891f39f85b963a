"""Arguments that the tools share."""

import argparse

from mmeffvit.config.load import OptionsAction
from mmeffvit.engine.launch import LAUNCHERS, RunOptions


def make_parser(description: str) -> argparse.ArgumentParser:
    """A parser with the arguments of any run of a config."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument('config', help='a config of mmdet or mmseg')
    parser.add_argument('--work-dir', help='folder of the log and the checkpoints')
    add_cfg_options(parser)
    add_debug(parser)
    parser.add_argument('--seed', type=int, help='seed of everything random')
    parser.add_argument(
        '--deterministic', action='store_true', help='deterministic algorithms only'
    )
    parser.add_argument('--launcher', choices=LAUNCHERS, default='none')
    # torch.distributed.launch passes this; torchrun does not
    parser.add_argument('--local-rank', '--local_rank', type=int, help=argparse.SUPPRESS)
    return parser


def add_cfg_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--cfg-options',
        nargs='+',
        action=OptionsAction,
        default={},
        metavar='KEY=VALUE',
        help='replace values of the config; data_root=FOLDER moves every data path',
    )


def add_debug(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--debug', action='store_true', help='show the traceback of every error')


def run_options(args: argparse.Namespace) -> RunOptions:
    """The part of ``args`` that :func:`make_parser` added."""
    return RunOptions(
        work_dir=args.work_dir,
        cfg_options=args.cfg_options,
        launcher=args.launcher,
        seed=args.seed,
        deterministic=args.deterministic,
    )
