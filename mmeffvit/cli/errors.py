"""Say what a detector's errors cost: COCO's curves C75, C50, Loc, Sim, Oth, BG and FN."""

from argparse import ArgumentParser
from functools import partial
from pathlib import Path
from typing import Any

from mmeffvit.visualization.error_curves import analyze

from .arguments import new_parser, output_folder, run_command


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, 'errors found.json errors --types bbox segm')
    add = parser.add_argument
    add('result', help='detections: a JSON in the format of COCO, or a .pkl of mmeffvit test --out')
    add('out_dir', type=output_folder, help='folder for tables and curves')
    add(
        '--ann',
        default='data/coco/annotations/instances_val2017.json',
        help='annotation file of these results (default: %(default)s)',
    )
    add('--types', nargs='+', choices=('bbox', 'segm'), default=['bbox'], help='default: bbox')
    add(
        '--classes',
        nargs='+',
        metavar='NAME',
        help='classes of a .pkl, if the model knows some of the annotation file only',
    )
    add(
        '--areas',
        nargs=2,
        type=float,
        metavar=('MEDIUM', 'LARGE'),
        default=(1024, 9216),
        help='pixels where medium and large objects begin (default: 1024 9216)',
    )
    add('--score-thr', type=float, default=0.0, help='leave out detections that score lower')
    add('--per-class', action='store_true', help='also draw every class')
    return parser


def run(result: str, ann: str, out_dir: Path, **values: Any) -> None:
    for analysis in analyze(result, ann, out_dir, **values):
        folder = out_dir / analysis.iou_type
        print(f'{analysis}\n{folder}: errors.md, errors.json, errors.png\n')


main = partial(run_command, make_parser, run)
