#!/usr/bin/env python
"""Draw losses, learning rate and validation metrics of work dirs into one PNG."""

import argparse
from pathlib import Path

from arguments import add_debug

from mmeffvit.cli.errors import exit_with_message
from mmeffvit.visualization.curves import plot_curves


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        'work_dirs', nargs='+', type=Path, metavar='WORK_DIR', help='several are laid over another'
    )
    parser.add_argument(
        '--out', type=Path, metavar='FILE.png', help='default: curves.png in the first work dir'
    )
    add_debug(parser)
    args = parser.parse_args()
    with exit_with_message(args.debug):
        plot_curves(args.work_dirs, args.out or args.work_dirs[0] / 'curves.png')


if __name__ == '__main__':
    main()
