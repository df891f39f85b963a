#!/usr/bin/env python
"""Print parameters and multiply-adds of a backbone or of the model of a config, part by part."""

import argparse

from arguments import add_debug

from mmeffvit.cli.errors import exit_with_message
from mmeffvit.complexity.count import print_complexity


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        'target',
        metavar='CONFIG_OR_BACKBONE',
        help='a config of mmdet or mmseg, or a backbone such as SHViT:s4, MobileViTv2:100, '
        'EfficientFormerV2:s2:attention=mobile or mmdet.ResNet:depth=50',
    )
    parser.add_argument(
        '--shape',
        nargs=2,
        type=int,
        metavar=('H', 'W'),
        help='image size in pixels (default: what the config tests at; 224 224 for a backbone)',
    )
    parser.add_argument(
        '--proposals',
        type=int,
        metavar='N',
        help='boxes for a second stage (default: test_cfg.rpn.max_per_img of the config)',
    )
    parser.add_argument('--json', metavar='FILE', help='also write the numbers to a file')
    add_debug(parser)
    args = parser.parse_args()
    with exit_with_message(args.debug):
        print_complexity(args.target, args.shape, args.proposals, args.json)


if __name__ == '__main__':
    main()
