#!/usr/bin/env python
"""Say what a detector's errors cost: COCO's curves C75, C50, Loc, Sim, Oth, BG and FN."""

import argparse
from pathlib import Path

from arguments import add_debug

from mmeffvit.cli.errors import exit_with_message
from mmeffvit.visualization.error_curves import analyze_and_print


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        'result', help='detections: a JSON in the format of COCO, or a .pkl of tools/test.py --out'
    )
    parser.add_argument('out_dir', type=Path, help='folder for tables and curves')
    parser.add_argument(
        '--ann',
        default='data/coco/annotations/instances_val2017.json',
        help='annotation file of these results (default: %(default)s)',
    )
    parser.add_argument(
        '--types', nargs='+', choices=('bbox', 'segm'), default=['bbox'], help='default: bbox'
    )
    parser.add_argument(
        '--classes',
        nargs='+',
        metavar='NAME',
        help='classes of a .pkl, if the model knows some of the annotation file only',
    )
    parser.add_argument(
        '--areas',
        nargs=2,
        type=float,
        metavar=('MEDIUM', 'LARGE'),
        default=(1024, 9216),
        help='pixels where medium and large objects begin (default: 1024 9216)',
    )
    parser.add_argument(
        '--score-thr', type=float, default=0.0, help='leave out detections that score lower'
    )
    parser.add_argument('--per-class', action='store_true', help='also draw every class')
    add_debug(parser)
    args = parser.parse_args()
    values = vars(args)
    result, ann, out_dir, debug = (values.pop(k) for k in ('result', 'ann', 'out_dir', 'debug'))
    with exit_with_message(debug):
        analyze_and_print(result, ann, out_dir, **values)


if __name__ == '__main__':
    main()
