#!/usr/bin/env python
"""Train and test many configs one after another, with one table of paper's numbers and ours.

Exit code 0 if all are done, 1 if some failed, 2 if the call cannot work. The same call again passes
over what is done, goes on where it was interrupted, and tries again what failed.
"""

import argparse
from pathlib import Path

from arguments import add_cfg_options, add_debug

from mmeffvit.cli.errors import exit_with_message
from mmeffvit.suite.commands import PRINTED, SuiteOptions
from mmeffvit.suite.run import print_commands, run_suite


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        'configs', nargs='+', metavar='CONFIG', help='paths, globs, or names of our own configs'
    )
    parser.add_argument(
        '--work-dir',
        type=Path,
        default=Path('work_dirs'),
        help='gets suite.json, suite.md and a folder per config (default: work_dirs)',
    )
    parser.add_argument('--test-only', action='store_true', help='test the newest checkpoints')
    parser.add_argument('--amp', action='store_true', help='train in mixed precision')
    parser.add_argument(
        '--auto-scale-lr', action='store_true', help='scale the learning rate by the batch size'
    )
    parser.add_argument(
        '--print',
        choices=PRINTED,
        dest='system',
        help='print the commands for a cluster instead of running them',
    )
    parser.add_argument('--gpus', type=int, default=1, help='processes of a run (default: 1)')
    parser.add_argument('--gpus-per-node', type=int, default=8, help='default: 8')
    parser.add_argument('--partition', help='partition of slurm')
    add_cfg_options(parser)
    add_debug(parser)
    args = parser.parse_args()
    values = vars(args)
    configs, system, debug = (values.pop(name) for name in ('configs', 'system', 'debug'))
    with exit_with_message(debug):
        options = SuiteOptions(**values)
        if system:
            raise SystemExit(print_commands(configs, options, system))
        raise SystemExit(run_suite(configs, options))


if __name__ == '__main__':
    main()
