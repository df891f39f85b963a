"""Remove heads and hidden units of a model with Mobile-Attention, for a smaller and faster one."""

from argparse import ArgumentParser
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from mmeffvit.pruning.prune import METHODS, PruneOptions, prune

from .arguments import MODEL, add_checkpoint, add_config, new_parser, output_file, run_command


def make_parser() -> ArgumentParser:
    parser = new_parser(
        __doc__,
        'prune configs/maskrcnn_efficientformerv2_mobiatt_s2.py epoch_12.pth --keep 0.5 '
        '--out half.pth',
    )
    add = parser.add_argument
    add_config(parser, MODEL)
    add_checkpoint(parser)
    add(
        '--keep',
        type=float,
        default=0.5,
        metavar='RATIO',
        help='part of the heads of each layer that are kept (default: %(default)s)',
    )
    add(
        '--keep-neurons',
        type=float,
        metavar='RATIO',
        help='part of the hidden units of each feed-forward layer that are kept (default: that of '
        '--keep)',
    )
    add(
        '--method',
        choices=METHODS,
        default='competition',
        help='what heads are kept for: what they win on the test images, chance, or the norm of '
        'their weights (default: %(default)s)',
    )
    add('--max-images', type=int, metavar='N', help='watch the first N images (default: all)')
    add('--seed', type=int, default=0, help='of --method random')
    add(
        '--out',
        type=output_file,
        default=Path('pruned.pth'),
        metavar='FILE.pth',
        help='checkpoint to write, with a config FILE.py next to it (default: %(default)s)',
    )
    return parser


def run(
    config: str, checkpoint: str | None, out: Path, cfg_options: Mapping[str, Any], **values: Any
) -> None:
    print(prune(config, checkpoint, out, PruneOptions(**values), cfg_options=cfg_options))


main = partial(run_command, make_parser, run)
