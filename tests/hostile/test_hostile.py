"""Payloads in checkpoints and predictions run nowhere: one group of the judge, with every change.

`make hostile` tries all groups: every night, and in `.ci/run` when these files change.
"""

import re

import pytest

from tests.conftest import run_python, succeeded


@pytest.mark.slow
def test_payloads_in_checkpoints_and_predictions_neither_run_nor_break_a_reader():
    arguments = '-m', 'tests.hostile', 'pickles', '--more', 1, '--jobs', 1
    printed = succeeded(run_python(*arguments, env={'OMP_NUM_THREADS': '1'}, timeout=850))
    count, clean = re.search(r'\| pickles +\| (\d+) +\| (\d+) ', printed).groups()
    assert int(count) == int(clean) > 250
