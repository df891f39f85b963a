"""Evaluate a checkpoint of a model of mmdet or mmseg as its config says."""

from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

from mmeffvit.engine.launch import evaluate

from .arguments import add_run, new_parser, run_command, take_run_options


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__)
    add_run(parser)
    parser.add_argument('checkpoint', help='a checkpoint of a run with this config')
    parser.add_argument('--show-dir', help='folder for pictures of the predictions')
    parser.add_argument('--out', metavar='FILE.pkl', help='file for the predictions')
    parser.add_argument('--tta', action='store_true', help='merge predictions on flipped copies')
    return parser


def run(config: str, checkpoint: str, **values: Any) -> None:
    evaluate(config, checkpoint, take_run_options(values), **values)


def main(argv: Sequence[str] | None = None) -> None:
    run_command(make_parser(), run, argv)
