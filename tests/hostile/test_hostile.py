"""Payloads in checkpoints and predictions run nowhere: one group of the judge, with every change.

`make hostile` tries all groups: every night, and in `.ci/run` when these files change.
"""

import json

import pytest

from tests.conftest import run_python


@pytest.mark.slow
def test_payloads_in_checkpoints_and_predictions_neither_run_nor_break_a_reader(tmp_path):
    done = run_python(
        '-m', 'tests.hostile', '--group', 'pickles', '--more', 1, '--jobs', 1,
        '--json', tmp_path / 'found.json',
        env={'OMP_NUM_THREADS': '1'}, timeout=850,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:]
    verdicts = json.loads((tmp_path / 'found.json').read_text())
    assert {verdict['outcome'] for verdict in verdicts} == {'clean'}
    assert len(verdicts) > 250
    assert len({verdict['door'] for verdict in verdicts}) > 10
