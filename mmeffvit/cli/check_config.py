"""Build the model of a config, train it one step on noise, and say what does not fit together.

Exit code 0 without faults, 1 with some, 2 if the config cannot be read.
"""

import time
from argparse import ArgumentParser
from collections.abc import Mapping
from functools import partial
from typing import Any

from mmeffvit.checks.config.check import check_config, counted, faults_in
from mmeffvit.checks.config.findings import Kind
from mmeffvit.config.load import ALL, open_config

from .arguments import add_config, new_parser, run_command


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, 'check configs/maskrcnn_swiftformer_l1.py --no-data')
    add_config(parser)
    return parser


def check_and_print(config: str, cfg_options: Mapping[str, Any]) -> int:
    """Check a config file and print what was found, the faults last."""
    start = time.monotonic()
    findings = check_config(open_config(config, cfg_options, ALL))
    order = list(Kind)
    for finding in sorted(findings, key=lambda finding: order.index(finding.kind)):
        print(finding)
    faults = faults_in(findings)
    print(f'{config}: {counted(faults)}, checked in {time.monotonic() - start:.1f} s')
    return 1 if faults else 0


main = partial(run_command, make_parser, check_and_print)
