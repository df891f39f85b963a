"""Prune attention heads and hidden units of a model with Mobile-Attention."""

from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mmeffvit.analysis.pruning.prune import METHODS, PruneOptions, prune

from .arguments import MODEL, add_checkpoint, add_config, new_parser, output_file
from .console import working


def make_parser() -> ArgumentParser:
    parser = new_parser(
        __doc__,
        'prune configs/maskrcnn_efficientformerv2_s2_mobile.py epoch_12.pth --keep 0.5 '
        '--out half.pth',
    )
    add = parser.add_argument
    add_config(parser, MODEL)
    add_checkpoint(parser)
    # fmt: off
    add('--keep', type=float, default=0.5, metavar='RATIO',
        help='fraction of heads to keep in each layer (default: %(default)s)')
    add('--keep-neurons', type=float, metavar='RATIO',
        help='fraction of hidden units to keep in each feed-forward layer (default: as --keep)')
    add('--method', choices=METHODS, default='competition',
        help='criterion: competition on test images, random, or norm of the weights '
             '(default: %(default)s)')
    add('--max-images', type=int, metavar='N',
        help='number of test images for the scores (default: all)')
    add('--seed', type=int, default=0, help='random seed of --method random')
    add('--out', type=output_file, default=Path('pruned.pth'), metavar='FILE.pth',
        help='output checkpoint; its config FILE.py is written next to it (default: %(default)s)')
    # fmt: on
    return parser


def run(
    config: str, checkpoint: str | None, out: Path, cfg_options: Mapping[str, Any], **values: Any
) -> None:
    with working(f'pruning {config}'):
        pruned = prune(config, checkpoint, out, PruneOptions(**values), cfg_options=cfg_options)
    print(pruned)
