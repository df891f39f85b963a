"""Train and test many configs one after another, with one table of paper's numbers and ours.

Exit code 0 if all are done, 1 if some failed, 2 if the call cannot work. The same call again skips
what is done, resumes what was interrupted, and tries again what failed.
"""

from argparse import ArgumentParser
from functools import partial
from typing import Any

from mmeffvit.suite.commands import PRINTED, SuiteOptions
from mmeffvit.suite.run import cluster_commands, run_suite

from .arguments import add_cfg_options, new_parser, output_folder, run_command


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, 'suite "configs/ssdlite_*.py" --work-dir work_dirs')
    add = parser.add_argument
    add('configs', nargs='*', metavar='CONFIG', help='paths, globs, or names of our own configs')
    add(
        '--work-dir',
        type=output_folder,
        default='work_dirs',
        help='folder for suite.json, suite.md and one folder per config (default: work_dirs)',
    )
    add('--test-only', action='store_true', help='test the latest checkpoints')
    add(
        '--released',
        action='store_true',
        help='test what the authors released for the configs, by default for all that have weights',
    )
    add('--amp', action='store_true', help='train in mixed precision')
    add('--auto-scale-lr', action='store_true', help='scale the learning rate by the batch size')
    add(
        '--print',
        choices=PRINTED,
        dest='system',
        help='print the commands for a cluster instead of running them',
    )
    add('--gpus', type=int, default=1, help='processes of a run (default: 1)')
    add('--gpus-per-node', type=int, default=8, help='default: 8')
    add('--partition', help='partition of slurm')
    add_cfg_options(parser)
    return parser


def run(configs: list[str], system: str | None, **values: Any) -> int:
    options = SuiteOptions(**values)
    if system is None:
        return run_suite(configs, options)
    print(*cluster_commands(configs, options, system), sep='\n')
    return 0


main = partial(run_command, make_parser, run)
