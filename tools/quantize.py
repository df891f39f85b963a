#!/usr/bin/env python
"""Make an exported ONNX file int8, calibrated on a folder of images, and compare the two."""

import argparse

from arguments import add_debug

from mmeffvit.cli.errors import exit_with_message
from mmeffvit.deploy.int8.quantize import quantize


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('model', metavar='MODEL.onnx', help='written by tools/export.py')
    parser.add_argument('images', metavar='IMAGES', help='folder of images like those to come')
    parser.add_argument('out', metavar='OUT.onnx', help='file to write')
    parser.add_argument(
        '--samples', type=int, default=64, metavar='N', help='images to calibrate on at most'
    )
    parser.add_argument(
        '--exclude',
        nargs='+',
        default=['auto'],
        metavar='auto|none|NODE',
        help='nodes that stay in float; auto searches for the most sensitive',
    )
    parser.add_argument(
        '--size', type=int, nargs=2, metavar=('HEIGHT', 'WIDTH'), help='resize images to this'
    )
    parser.add_argument(
        '--score-thr',
        type=float,
        default=0.3,
        metavar='SCORE',
        help='compare objects with at least this score',
    )
    add_debug(parser)
    args = parser.parse_args()
    with exit_with_message(args.debug):
        report = quantize(
            args.model,
            args.images,
            args.out,
            samples=args.samples,
            exclude=args.exclude,
            score_thr=args.score_thr,
            size=tuple(args.size) if args.size else None,
        )
        print(report)


if __name__ == '__main__':
    main()
