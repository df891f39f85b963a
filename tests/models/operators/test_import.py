"""mmcv finds the operators as a file, whatever is imported first."""

import os
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, PathFinder
from pathlib import Path

import mmcv
import pytest

from tests.conftest import ROOT, run_python, succeeded
from tests.variants import sampled

CALL = """
import torch
from mmcv.ops import nms
print(nms(torch.tensor([[0., 0, 9, 9], [0, 0, 8, 9]]), torch.tensor([0.2, 0.7]), 0.5)[1].tolist())
"""


@pytest.fixture
def lite(tmp_path) -> Path:
    """A folder with mmcv as it is installed beside this package, without a compiled library."""
    package = tmp_path / 'mmcv'
    package.mkdir()
    for entry in Path(mmcv.__file__).parent.iterdir():
        if not entry.name.startswith(('_ext.', '__pycache__')):
            (package / entry.name).symlink_to(entry)
    (package / '_ext.py').symlink_to(ROOT / 'mmeffvit' / 'models' / 'operators' / '_ext.py')
    return tmp_path


SCRIPTS = {  # with what they print; the last asks the system's compiler, whose absence is reported
    'mmdet alone gets no models of ours': (
        f'import mmdet.models{CALL}import sys; print("mmeffvit" in sys.modules)\nimport mmeffvit',
        ['[1]', 'False'],
    ),
    "after our import, and for mmcv's report": (
        f'import mmeffvit{CALL}from mmcv.utils.env import collect_env\n'
        'print(collect_env()["MMCV Compiler"])',
        ['[1]', 'n/a'],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize('name', sampled(list(SCRIPTS), [next(iter(SCRIPTS))]))
def test_operators_are_found(name, lite):
    code, expected = SCRIPTS[name]
    script = lite / 'script.py'
    script.write_text(code)
    printed = succeeded(
        run_python('-W', 'ignore', script, env={'PYTHONPATH': f'{lite}{os.pathsep}{ROOT}'})
    )
    lines = printed.splitlines()
    assert [lines[0], *lines[1:][-1:]] == expected


def test_a_compiled_library_takes_precedence(tmp_path):
    for suffix in (EXTENSION_SUFFIXES[0], SOURCE_SUFFIXES[0]):
        (tmp_path / f'_ext{suffix}').touch()
    assert PathFinder.find_spec('_ext', [str(tmp_path)]).origin.endswith(EXTENSION_SUFFIXES[0])
