"""Analyze the errors of a detector with COCO's curves C75, C50, Loc, Sim, Oth, BG and FN."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from mmeffvit.analysis.coco_errors import AREAS
from mmeffvit.analysis.error_curves import analyze

from ..arguments import new_parser, output_folder


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, 'analyze errors found.json --types bbox segm')
    add = parser.add_argument
    add('result', help='detections: JSON in COCO format, or FILE.pkl of `mmeffvit test --out`')
    # fmt: off
    add('--out-dir', type=output_folder, metavar='FOLDER',
        help='output folder of tables and curves (default: errors in the folder of the results)')
    add('--ann', metavar='FILE', default='data/coco/annotations/instances_val2017.json',
        help='annotation file (default: %(default)s)')
    add('--types', nargs='+', choices=('bbox', 'segm'), default=['bbox'],
        help='boxes or masks (default: bbox)')
    add('--classes', nargs='+', metavar='NAME',
        help='classes of a .pkl, if the annotation file has more')
    add('--areas', nargs=2, type=float, metavar=('MEDIUM', 'LARGE'), default=AREAS,
        help='area thresholds of medium and large objects in pixels (default: 1024 9216)')
    add('--score-thr', type=float, default=0.0, metavar='SCORE',
        help='score threshold (default: 0)')
    # fmt: on
    add('--per-class', action='store_true', help='also plot every class')
    return parser


def run(result: str, ann: str, out_dir: Path | None, **values: Any) -> None:
    out_dir = out_dir or Path(result).parent / 'errors'
    for analysis in analyze(result, ann, out_dir, **values):
        folder = out_dir / analysis.iou_type
        print(f'{analysis}\n{folder}: errors.md, errors.json, errors.png\n')
