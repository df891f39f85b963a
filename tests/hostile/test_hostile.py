"""Hostile inputs and faults end well or in one clear line: the same two hundred cases every time.

``make variants`` runs four hundred others, ``make hostile`` all of them and twenty times as many
random ones.
"""

import json
import os
from pathlib import Path
from tempfile import gettempdir

import pytest

from tests.conftest import run_python
from tests.variants import sampled

PARTS = 6  # each has every sixth case, so some of almost every group


@pytest.mark.slow
@pytest.mark.parametrize('part', sampled(range(PARTS), [0]))
def test_hostile_inputs_neither_run_nor_lose_nor_break_anything(part, tmp_path):
    session = os.environ.get('PYTEST_XDIST_TESTRUNUID', os.getpid())
    world = Path(gettempdir(), f'mmeffvit_tests_{session}', 'hostile')
    world.parent.mkdir(exist_ok=True)
    done = run_python(
        '-m', 'tests.hostile', '--more', 1, '--part', part, PARTS, '--jobs', 1, '--world', world,
        '--json', tmp_path / 'verdicts.json',
        env={'OMP_NUM_THREADS': '1'}, timeout=850,
    )  # fmt: skip
    assert (tmp_path / 'verdicts.json').exists(), done.stdout[-5000:]
    verdicts = json.loads((tmp_path / 'verdicts.json').read_text())
    faults = [
        f'{v["outcome"]}: {v["group"]}: {v["name"]}\n{v["detail"]}'
        for v in verdicts
        if v['outcome'] != 'clean'
    ]
    assert not faults, '\n\n'.join(faults)
    assert len(verdicts) > 500 // PARTS
    assert len({v['group'] for v in verdicts}) > 20
