#!/usr/bin/env python
"""Build the model of a config, train it one step on noise, and say what does not fit together.

Exit code 0 without faults, 1 with some, 2 if the config cannot be read.
"""

import argparse

from arguments import add_cfg_options, add_debug

from mmeffvit.checks.config.check import check_and_print
from mmeffvit.cli.errors import exit_with_message


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('config', help='a config of mmdet or mmseg')
    add_cfg_options(parser)
    add_debug(parser)
    args = parser.parse_args()
    with exit_with_message(args.debug):
        raise SystemExit(check_and_print(args.config, args.cfg_options))


if __name__ == '__main__':
    main()
