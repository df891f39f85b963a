"""A trapping CPU is found by a child process; freed memory is kept by commands."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from mmeffvit.utils import machine
from mmeffvit.utils.machine import BELOW_AMX, ISA, PROBE, amx_works, avoid_trapping_amx, num_cores
from tests.conftest import run_python, succeeded

COMMAND = """
import os, resource, types, torch
import mmeffvit
from mmeffvit.cli.arguments import new_parser, run_command

parser = new_parser(__doc__, '')

def run():
    counts = []
    for _ in range(12):
        torch.ones(2**24)  # 64 MiB
        counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
    print(counts[-1] - counts[1], flush=True)
    os._exit(0)

def run_as_command(**environment):
    os.environ.update(environment)
    run_command(types.SimpleNamespace(make_parser=lambda: parser, run=run), [], 'models')

for call in (
    run, run_as_command, lambda: run_as_command(MALLOC_TOP_PAD_='0'),
    lambda: run_as_command(GLIBC_TUNABLES='glibc.malloc.perturb=0'),
):
    if os.fork():
        os.wait()
    else:
        call()
"""
ILLEGAL = 'import os, signal; os.kill(os.getpid(), signal.SIGILL)'


@pytest.fixture
def claimed(monkeypatch, tmp_path):
    """A CPU that reports AMX, in an environment of its own."""
    monkeypatch.setenv(ISA, '')
    monkeypatch.delenv(ISA)  # absent, and so again after the test
    monkeypatch.setattr(machine, 'cpu_info', lambda: {'flags': 'avx2 amx_tile', 'model name': 'A'})
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
    return tmp_path / 'mmeffvit' / 'amx.json'


def answer(monkeypatch, code):
    monkeypatch.setattr(machine, 'PROBE', code)


def test_a_cpu_that_traps_is_capped_and_remembered(monkeypatch, claimed):
    answer(monkeypatch, ILLEGAL)
    avoid_trapping_amx()
    assert os.environ.pop(ISA) == BELOW_AMX
    assert list(json.loads(claimed.read_text()).values()) == [False]
    answer(monkeypatch, '')  # the child process would survive, but is not started again
    avoid_trapping_amx()
    assert os.environ.pop(ISA) == BELOW_AMX
    # another CPU with the same environment, as on a shared disk
    monkeypatch.setattr(machine, 'cpu_name', lambda: 'B')
    avoid_trapping_amx()
    assert ISA not in os.environ
    assert list(json.loads(claimed.read_text()).values()) == [False, True]


@pytest.mark.parametrize('code', ['', 'raise ImportError'])
def test_a_cpu_that_does_not_trap_is_left_alone(monkeypatch, claimed, code):
    answer(monkeypatch, code)
    avoid_trapping_amx()
    assert ISA not in os.environ


def test_a_cap_of_the_user_and_a_cpu_without_amx_are_not_probed(monkeypatch, claimed):
    answer(monkeypatch, ILLEGAL)
    monkeypatch.setenv(ISA, 'AVX2')
    avoid_trapping_amx()
    assert os.environ[ISA] == 'AVX2'
    monkeypatch.delenv(ISA)
    monkeypatch.setattr(machine, 'cpu_info', dict)
    avoid_trapping_amx()
    assert not claimed.exists()


def test_nothing_is_remembered_where_it_cannot_be_written_or_read(monkeypatch, claimed):
    answer(monkeypatch, ILLEGAL)
    claimed.parent.mkdir()
    claimed.write_text('{"interrupted')
    assert not amx_works()
    monkeypatch.setenv('XDG_CACHE_HOME', str(claimed))
    assert not amx_works()


def test_a_user_without_a_home_gets_no_folder_in_the_current_one(monkeypatch, claimed, tmp_path):
    answer(monkeypatch, ILLEGAL)
    monkeypatch.chdir(tmp_path)
    for name in ('XDG_CACHE_HOME', 'HOME'):
        monkeypatch.delenv(name)
    monkeypatch.setattr('pwd.getpwuid', lambda uid: {}[uid])  # an id that the system does not know
    assert not amx_works()
    assert not list(tmp_path.iterdir())


def test_the_probe_imports_nothing_from_the_current_folder(monkeypatch, claimed, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path('found.py').write_text("open('trace', 'w').close()")
    answer(monkeypatch, f'import found\n{ILLEGAL}')  # not reached
    assert amx_works()
    assert not Path('trace').exists()
    subprocess.run([sys.executable, '-c', 'import found'], check=True)  # the control
    assert Path('trace').exists()


def test_cores_are_counted_on_macos_too(monkeypatch):
    monkeypatch.delattr(os, 'sched_getaffinity')
    assert num_cores() == os.cpu_count()


def test_the_probe_runs_in_bf16_and_obeys_the_cap():
    if 'avx512_bf16' not in machine.cpu_info().get('flags', '').split():
        pytest.skip('the CPU has no bf16')
    # the cap is set after the import, as a command does
    code = f'import os, torch; os.environ["{ISA}"] = "AVX512_CORE"{PROBE}'
    printed = succeeded(run_python('-c', code, env={'ONEDNN_VERBOSE': '1', ISA: ''}))
    assert 'bf16' in printed
    assert 'avx512_core_bf16' not in printed


@pytest.mark.skipif(not platform.libc_ver()[1], reason='no glibc')
def test_a_command_keeps_freed_memory_unless_the_user_has_set_its_allocator():
    printed = succeeded(run_python('-c', COMMAND))
    imported, as_command, *with_own_settings = map(int, printed.split())
    assert as_command * 2 < imported  # one or two of ten are at another place
    assert len(with_own_settings) == 2
    assert all(faults * 2 > imported for faults in with_own_settings)
