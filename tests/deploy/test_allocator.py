"""Memory is kept from one repetition to the next."""

import pytest

from tests.conftest import ROOT, run_python

SCRIPT = """
import resource
import sys

import torch

from mmeffvit.deploy import keep_memory

if sys.argv[1] == 'kept' and not keep_memory():
    print('not glibc')
    sys.exit()
x = torch.ones(16 * 2**20)  # 64 MiB: 16384 pages
for _ in range(10):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    y = x.relu()
    y = y * y
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(faults)
"""


def faults(tmp_path, choice: str) -> str:
    script = tmp_path / 'faults.py'
    script.write_text(SCRIPT)
    run = run_python(script, choice, env=dict(PYTHONPATH=str(ROOT)))
    assert run.returncode == 0, run.stdout
    return run.stdout.split('\n')[-2]


def test_pages_are_mapped_once(tmp_path):
    kept = faults(tmp_path, 'kept')
    if kept == 'not glibc':
        pytest.skip('the C library is not glibc')
    assert int(kept) < 100
    assert int(faults(tmp_path, 'as usual')) > 16384
