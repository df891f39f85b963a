"""Quantize an exported file to int8 on a folder of images, and compare the two."""

from argparse import ArgumentParser
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mmeffvit.deploy.int8.quantize import quantize

from .arguments import new_parser, output_file, run_command


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, 'quantize model.onnx data/coco/val2017 model_int8')
    add = parser.add_argument
    add('model', metavar='MODEL', help='.onnx or .tflite, written by mmeffvit export')
    add('images', metavar='IMAGES', help='calibration images, similar to those at inference')
    add(
        'out',
        type=output_file,
        metavar='OUT',
        help='of an .onnx: .onnx for ONNX Runtime, .xml for OpenVINO, without a suffix the faster '
        'of the two; of a .tflite: .tflite',
    )
    add(
        '--samples',
        type=int,
        default=64,
        metavar='N',
        help='maximum number of calibration images (default: %(default)s)',
    )
    add(
        '--exclude',
        nargs='+',
        default=['auto'],
        metavar='auto|none|NODE',
        help='layers that stay in float; auto searches for the most sensitive where int8 disagrees',
    )
    add('--size', type=int, nargs=2, metavar=('HEIGHT', 'WIDTH'), help='resize images to this size')
    add(
        '--score-thr',
        type=float,
        default=0.3,
        metavar='SCORE',
        help='compare objects with at least this score',
    )
    add(
        '--min-agreement',
        type=float,
        metavar='VALUE',
        help='lowest agreement with the float file: fraction of matched objects (default 0.9) or '
        'of equal pixels (0.95), or dB of each map (15)',
    )
    add('--allow-slower', action='store_true', help='write the file even if float is faster here')
    return parser


def run(model: str, images: str, out: Path, size: Sequence[int] | None, **values: Any) -> None:
    print(quantize(model, images, out, size=tuple(size) if size else None, **values))


main = partial(run_command, make_parser, run)
