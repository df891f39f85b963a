"""mmcv finds the operators as a file, whatever is imported first."""

import os
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, PathFinder
from pathlib import Path

import mmcv
import pytest

from tests.conftest import ROOT, run_python

CALL = """
import torch
from mmcv.ops import nms
print(nms(torch.tensor([[0., 0, 9, 9], [0, 0, 8, 9]]), torch.tensor([0.2, 0.7]), 0.5)[1].tolist())
"""
SPAWN = """
import multiprocessing, numpy

def match(queue):
    from mmcv.ops import nms_match
    queue.put(nms_match(numpy.float32([[0, 0, 9, 9, 1]]), 0.5)[0].tolist())

if __name__ == '__main__':
    context = multiprocessing.get_context('spawn')
    queue = context.Queue()
    process = context.Process(target=match, args=(queue,))
    process.start()
    print(queue.get(timeout=300))
    process.join()
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


def run(lite: Path, code: str) -> list[str]:
    script = lite / 'script.py'
    script.write_text(code)
    found = run_python('-W', 'ignore', script, env={'PYTHONPATH': f'{lite}{os.pathsep}{ROOT}'})
    assert found.returncode == 0, found.stdout
    return found.stdout.splitlines()


@pytest.mark.slow
def test_mmdet_alone_gets_operators_but_no_models_of_ours(lite):
    code = f'import mmdet.models{CALL}import sys; print("mmeffvit" in sys.modules)\nimport mmeffvit'
    assert run(lite, code) == ['[1]', 'False']


@pytest.mark.slow
def test_operators_are_found_after_our_import_and_for_mmcvs_report(lite):
    code = f'import mmeffvit{CALL}from mmcv.utils.env import collect_env\n'
    lines = run(lite, code + 'print(collect_env()["MMCV Compiler"])')
    # the report also calls the host's compiler, whose absence the shell reports in between
    assert [lines[0], lines[-1]] == ['[1]', 'n/a']


@pytest.mark.slow
def test_a_spawned_process_finds_the_operators(lite):
    assert run(lite, SPAWN) == ['[0]']


def test_a_compiled_library_takes_precedence(tmp_path):
    for suffix in (EXTENSION_SUFFIXES[0], SOURCE_SUFFIXES[0]):
        (tmp_path / f'_ext{suffix}').touch()
    assert PathFinder.find_spec('_ext', [str(tmp_path)]).origin.endswith(EXTENSION_SUFFIXES[0])
