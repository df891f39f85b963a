"""Compare the attention heads of each layer, and test a model without each of them in turn."""

from argparse import ArgumentParser
from functools import partial
from pathlib import Path
from typing import Any

from mmeffvit.visualization.heads import analyze_and_draw

from .arguments import MODEL, add_checkpoint, add_config, new_parser, output_folder, run_command


def make_parser() -> ArgumentParser:
    parser = new_parser(
        __doc__, 'analyze-heads configs/deformabledetr_resnet_50.py epoch_50.pth --max-images 500'
    )
    add = parser.add_argument
    add_config(parser, MODEL)
    add_checkpoint(parser)
    add(
        '--out',
        type=output_folder,
        default=Path('work_dirs/heads'),
        help='folder for tables, a picture and the log; an interrupted table is completed '
        '(default: %(default)s)',
    )
    add(
        '--layers',
        nargs='+',
        default=(),
        metavar='NAME',
        help="layers, or modules around them; '*' stands for anything (default: all)",
    )
    add('--max-images', type=int, metavar='N', help='test on the first N images (default: all)')
    add(
        '--keep-one',
        action='store_true',
        help='also test with each head alone: all others of its layer are set to zero',
    )
    add(
        '--no-ablation',
        dest='ablate',
        action='store_false',
        help='similarities only: one test in place of one more per head',
    )
    return parser


def run(config: str, checkpoint: str | None, out: Path, **values: Any) -> None:
    analysis = analyze_and_draw(config, checkpoint, out, **values)
    print(f'{analysis}\n{out}: heads.json, heads.csv, heads.png')


main = partial(run_command, make_parser, run)
