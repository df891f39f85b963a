"""Quantize an exported file to int8 and compare it with the float file."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from mmeffvit.deploy.int8.quantize import quantize

from .arguments import add_shape, add_verbose, new_parser, output_file
from .console import working


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, 'quantize model.onnx data/coco/val2017 model_int8')
    add = parser.add_argument
    add('model', metavar='MODEL', help='exported .onnx or .tflite file')
    # fmt: off
    add('images', metavar='IMAGES',
        help='folder of calibration images, similar to those at inference')
    add('out', type=output_file, metavar='OUT',
        help='output file; for an .onnx: .onnx (ONNX Runtime), .xml (OpenVINO), or no suffix for '
             'the faster of both; for a .tflite: .tflite')
    add('--max-images', dest='samples', type=int, default=64, metavar='N',
        help='maximum number of calibration images (default: %(default)s)')
    add('--exclude', nargs='+', default=['auto'], metavar='auto|none|NODE',
        help='layers to keep in float (default: auto, the most sensitive ones if needed)')
    add_shape(parser, 'image size (default: the size in the file)', 'size')
    add('--score-thr', type=float, default=0.3, metavar='SCORE',
        help='score threshold of compared objects (default: %(default)s)')
    add('--min-agreement', type=float, metavar='VALUE',
        help='minimum agreement with the float file: fraction of matched objects (default: 0.9) or '
             'of equal pixels (0.95), or dB of feature maps (15)')
    add('--allow-slower', action='store_true',
        help='write the file even if float is faster on this machine')
    # fmt: on
    add_verbose(parser)
    return parser


def run(model: str, images: str, out: Path, verbose: bool, **values: Any) -> None:
    with working(f'quantizing {model}', verbose=verbose):
        result = quantize(model, images, out, **values)
    print(result)
