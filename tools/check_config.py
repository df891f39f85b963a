#!/usr/bin/env python
"""Build the model of a config, train it one step on noise, and say what does not fit together.

Exit code 0 without faults, 1 with some, 2 if the config cannot be read.
"""

import argparse

from mmengine.config import DictAction

from mmeffvit.engine.check_config import check_and_print
from mmeffvit.engine.errors import exit_with_message


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('config', help='a config of mmdet or mmseg')
    parser.add_argument(
        '--cfg-options',
        nargs='+',
        action=DictAction,
        default={},
        metavar='KEY=VALUE',
        help='replace values of the config',
    )
    parser.add_argument('--debug', action='store_true', help='show the traceback of every error')
    args = parser.parse_args()
    with exit_with_message(args.debug):
        raise SystemExit(check_and_print(args.config, args.cfg_options))


if __name__ == '__main__':
    main()
