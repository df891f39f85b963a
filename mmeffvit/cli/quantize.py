"""Make an exported ONNX file int8, calibrated on a folder of images, and compare the two."""

from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

from mmeffvit.deploy.int8.quantize import quantize

from .arguments import new_parser, run_command


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__)
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
    return parser


def run(model: str, images: str, out: str, size: Sequence[int] | None, **values: Any) -> None:
    print(quantize(model, images, out, size=tuple(size) if size else None, **values))


def main(argv: Sequence[str] | None = None) -> None:
    run_command(make_parser(), run, argv)
