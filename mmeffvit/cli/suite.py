"""Train and test many configs one after another, with one table of published and our results.

The same command again skips finished configs, resumes interrupted runs and retries failed ones.
Exit code: 0 if all are done, 1 if some failed, 2 if the command cannot run.
"""

from argparse import ArgumentParser
from typing import Any

from mmeffvit.analysis.suite.run import SuiteOptions, run_suite

from .arguments import add_cfg_options, add_verbose, new_parser, output_folder
from .console import working


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, 'suite "configs/ssdlite_*.py" --work-dir work_dirs')
    add = parser.add_argument
    add('configs', nargs='*', metavar='CONFIG', help='paths, globs, or names of our configs')
    # fmt: off
    add('--work-dir', type=output_folder, default='work_dirs', metavar='FOLDER',
        help='folder of suite.json, suite.md and one folder per config (default: work_dirs)')
    add('--released', action='store_true',
        help='only test released weights (without CONFIG: all that are released)')
    add('--amp', action='store_true', help='train in mixed precision')
    add('--auto-scale-lr', action='store_true', help='scale the learning rate by the batch size')
    add('--nproc-per-node', dest='processes', type=int, default=1, metavar='N',
        help='number of processes per run, one per GPU (default: 1)')
    # fmt: on
    add_cfg_options(parser)
    add_verbose(parser)
    return parser


def run(configs: list[str], verbose: bool, **values: Any) -> int:
    with working('', verbose=verbose):
        return run_suite(configs, SuiteOptions(**values))
