#!/usr/bin/env python
"""Draw what a config feeds to its model, after augmentation, as contact sheets."""

import argparse
from pathlib import Path

from arguments import add_cfg_options, add_debug

from mmeffvit.cli.errors import exit_with_message
from mmeffvit.visualization.browse import BrowseOptions, browse


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('config', help='a config of mmdet or mmseg')
    parser.add_argument(
        '--out-dir', type=Path, default=Path('browse'), help='folder of the sheets (%(default)s)'
    )
    parser.add_argument('--split', choices=('train', 'val', 'test'), default='train')
    parser.add_argument('--number', type=int, default=12, help='samples to draw (%(default)s)')
    parser.add_argument('--seed', type=int, default=0, help='of order and augmentation')
    parser.add_argument(
        '--original', action='store_true', help='put the image on the disk beside each'
    )
    add_cfg_options(parser)
    add_debug(parser)
    args = parser.parse_args()
    options = BrowseOptions(
        out=args.out_dir,
        split=args.split,
        number=args.number,
        seed=args.seed,
        original=args.original,
        cfg_options=args.cfg_options,
    )
    with exit_with_message(args.debug):
        browse(args.config, options)


if __name__ == '__main__':
    main()
