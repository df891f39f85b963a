#!/usr/bin/env python
"""Read the annotations of a config's data sets, open some images, and say what is broken.

Exit code 0 if nothing is broken, 1 if something is, 2 if the config cannot be read.
"""

import argparse

from arguments import add_cfg_options, add_debug

from mmeffvit.checks.data.check import SPLITS, check_and_print
from mmeffvit.cli.errors import exit_with_message


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('config', help='a config of mmdet or mmseg')
    parser.add_argument(
        '--splits', nargs='+', choices=SPLITS, default=SPLITS, help='which data sets to look at'
    )
    parser.add_argument(
        '--num-images',
        type=int,
        default=50,
        metavar='N',
        help='images to open of every data set (default: 50)',
    )
    parser.add_argument('--all', action='store_true', help='open every image')
    parser.add_argument('--seed', type=int, default=0, help='which images are opened')
    add_cfg_options(parser)
    add_debug(parser)
    args = parser.parse_args()
    with exit_with_message(args.debug):
        code = check_and_print(
            args.config,
            args.cfg_options,
            splits=tuple(args.splits),
            num_images=None if args.all else args.num_images,
            seed=args.seed,
        )
        raise SystemExit(code)


if __name__ == '__main__':
    main()
