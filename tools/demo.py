#!/usr/bin/env python
"""Train Mask R-CNN with SwiftFormer-XS on generated shapes: about ten minutes on two CPU cores."""

import argparse
from pathlib import Path

from arguments import add_debug

from mmeffvit.cli.demo import run_demo
from mmeffvit.cli.errors import exit_with_message


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--out', type=Path, default=Path('work_dirs/demo'), help='output folder')
    parser.add_argument('--seed', type=int, default=0, help='seed of the data and the training')
    add_debug(parser)
    args = parser.parse_args()
    with exit_with_message(args.debug):
        run_demo(args.out, args.seed)


if __name__ == '__main__':
    main()
