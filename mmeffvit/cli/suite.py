"""Train and test many configs one after another, with one table of published and our results.

The same command again skips finished configs, resumes interrupted runs and retries failed ones.
Exit code: 0 if all are done, 1 if some failed, 2 if the command cannot run.
"""

from argparse import ArgumentParser
from typing import Any

from mmeffvit.analysis.suite.commands import PRINTED, SuiteOptions
from mmeffvit.analysis.suite.run import cluster_commands, run_suite

from .arguments import add_cfg_options, add_verbose, new_parser, output_folder
from .console import working


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, 'suite "configs/ssdlite_*.py" --work-dir work_dirs')
    add = parser.add_argument
    add('configs', nargs='*', metavar='CONFIG', help='paths, globs, or names of our configs')
    add(
        '--work-dir',
        type=output_folder,
        default='work_dirs',
        metavar='FOLDER',
        help='folder of suite.json, suite.md and one folder per config (default: work_dirs)',
    )
    add('--test-only', action='store_true', help='only test the latest checkpoints')
    add(
        '--released',
        action='store_true',
        help='only test released weights (without CONFIG: all that are released)',
    )
    add('--amp', action='store_true', help='train in mixed precision')
    add('--auto-scale-lr', action='store_true', help='scale the learning rate by the batch size')
    add(
        '--print',
        choices=PRINTED,
        dest='system',
        help='print the commands for a cluster instead of running them',
    )
    add('--gpus', type=int, default=1, metavar='N', help='processes per run (default: 1)')
    add('--gpus-per-node', type=int, default=8, metavar='N', help='default: 8')
    add('--partition', help='Slurm partition')
    add_cfg_options(parser)
    add_verbose(parser)
    return parser


def run(configs: list[str], system: str | None, verbose: bool, **values: Any) -> int:
    options = SuiteOptions(**values)
    if system is None:
        with working('', verbose=verbose):
            return run_suite(configs, options)
    print(*cluster_commands(configs, options, system), sep='\n')
    return 0
