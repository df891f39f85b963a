"""Small models and runs for tests of many commands."""

from pathlib import Path

import pytest

from tests.analysis.small import save_segmentor
from tests.conftest import run_python
from tests.deploy.models import once_a_session


@pytest.fixture(scope='session')
def world() -> Path:
    """Small data, models and runs, which no command changes."""
    with once_a_session('hostile_heads') as heads:
        folder = heads.with_name('hostile')  # of the hostile cases, too
        code = 'import sys; from pathlib import Path; from tests.hostile.__main__ import make_world'
        done = run_python('-c', f'{code}; make_world(Path(sys.argv[1]))', folder)
        assert done.returncode == 0, done.stdout
        if not heads.exists():
            heads.mkdir()
            save_segmentor('mmeffvit.PVTv2MobiAtt', folder / 'ade', heads)
    return folder
