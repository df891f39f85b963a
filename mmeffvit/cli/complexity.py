"""Count parameters and MACs of a backbone, detector, segmentor or classifier, per module."""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from mmeffvit.analysis.complexity.count import count
from mmeffvit.utils.files import write_file

from .arguments import add_shape, new_parser, output_file


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, 'complexity configs/maskrcnn_swiftformer_l1.py --shape 800 1344')
    add = parser.add_argument
    # fmt: off
    add('target', metavar='CONFIG_OR_BACKBONE',
        help='config, saved model, or backbone such as SHViT:s4, '
             'EfficientFormerV2:s2:attention=mobile or mmdet.ResNet:depth=50')
    add_shape(parser, 'image size (default: the test size of the config; 224 224 for a backbone)')
    add('--proposals', type=int, metavar='N',
        help='number of proposals of a two-stage detector (default: test_cfg.rpn.max_per_img)')
    add('--json', type=output_file, metavar='FILE', dest='out',
        help='save the numbers to this file')
    # fmt: on
    return parser


def run(target: str, out: Path | None, **values: Any) -> None:
    result = count(target, **values)
    print(result)
    if out:
        write_file(out, json.dumps(result.as_dict(), indent=2) + '\n')
