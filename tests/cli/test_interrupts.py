"""A command that a signal ends at any moment leaves nothing unfinished beside its outputs."""

import json
import signal

import pytest

from tests.cli.interrupting import COMMANDS, SIGNALS
from tests.conftest import ROOT, run_python

OUTPUTS = {
    'predict': {
        '000000.png', '000001.png', 'a.jpg', 'b.jpg', 'video.mp4', 'found.json',
        'found.images.json'},
    'export': {'model.param', 'model.bin', 'model.json'},
}  # fmt: skip


@pytest.fixture(scope='module')
def ended(world, tmp_path_factory) -> dict[tuple[str, int], dict]:
    """How commands ended that were interrupted, by their name and the signal."""
    folder = tmp_path_factory.mktemp('interrupted')
    environment = {'PYTHONPATH': str(ROOT), 'OMP_NUM_THREADS': '1', 'TMPDIR': str(folder)}
    done = run_python('-m', 'tests.cli.interrupting', folder, cwd=world, env=environment)
    assert done.returncode == 0, done.stdout
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('["')]
    return {(name, number): found for name, number, found in lines}


@pytest.mark.slow
@pytest.mark.parametrize('number', SIGNALS[:-1], ids=lambda number: number.name)
@pytest.mark.parametrize('name', COMMANDS)
def test_a_signal_leaves_only_finished_files(name, number, ended):
    found = ended[name, number]
    assert set(found['codes']) <= {128 + number, 0}
    assert 128 + number in found['codes']  # it has not always ended before
    for left in found['left']:
        assert set(left) <= OUTPUTS[name]
    assert (found['code'], set(found['repeated'])) == (0, OUTPUTS[name])


@pytest.mark.slow
@pytest.mark.parametrize('name', COMMANDS)
def test_a_repeat_removes_what_a_killed_command_has_left(name, ended):
    found = ended[name, signal.SIGKILL]
    assert any(set(left) - OUTPUTS[name] for left in found['left'])
    assert (found['code'], set(found['repeated'])) == (0, OUTPUTS[name])
