"""Print parameters and MACs of a backbone or of the model of a config, part by part."""

import json
from argparse import ArgumentParser
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from mmeffvit.complexity.count import count
from mmeffvit.utils.files import write_file

from .arguments import new_parser, output_file, run_command


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, 'complexity configs/maskrcnn_swiftformer_l1.py --shape 800 1344')
    add = parser.add_argument
    add(
        'target',
        metavar='CONFIG_OR_BACKBONE',
        help='a config of mmdet or mmseg, a saved model, or a backbone such as SHViT:s4, '
        'MobileViTv2:100, '
        'EfficientFormerV2:s2:attention=mobile or mmdet.ResNet:depth=50',
    )
    add(
        '--shape',
        nargs=2,
        type=int,
        metavar=('H', 'W'),
        help='image size in pixels (default: what the config tests at; 224 224 for a backbone)',
    )
    add(
        '--proposals',
        type=int,
        metavar='N',
        help='boxes for a second stage (default: test_cfg.rpn.max_per_img of the config)',
    )
    add(
        '--json',
        type=output_file,
        metavar='FILE',
        dest='out',
        help='also write the numbers to a file',
    )
    return parser


def run(target: str, shape: Sequence[int] | None, proposals: int | None, out: Path | None) -> None:
    result = count(target, shape=shape and tuple(shape), proposals=proposals)
    print(result)
    if out:
        write_file(out, json.dumps(result.as_dict(), indent=2) + '\n')


main = partial(run_command, make_parser, run)
