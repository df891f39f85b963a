#!/usr/bin/env python
"""Measure predictions class by class: AP of a detector, IoU of a segmentor."""

import argparse
from pathlib import Path

from arguments import add_cfg_options, add_debug

from mmeffvit.cli.errors import exit_with_message
from mmeffvit.visualization.per_class import report_per_class


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('config', help='a config of mmdet or mmseg')
    parser.add_argument(
        'results', type=Path,
        help='FILE.pkl of tools/test.py --out, or what tools/predict.py --out wrote',
    )  # fmt: skip
    parser.add_argument(
        '--out-dir', type=Path, metavar='FOLDER',
        help='gets per_class.md and per_class.png; by default where the results are',
    )  # fmt: skip
    add_cfg_options(parser)
    add_debug(parser)
    args = parser.parse_args()
    with exit_with_message(args.debug):
        report_per_class(
            args.config, args.results, args.out_dir or args.results.parent, args.cfg_options
        )


if __name__ == '__main__':
    main()
