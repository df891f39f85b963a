"""Several processes of one machine: their options, their end."""

import contextlib
import re
import signal
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from mmengine.device import utils as mmengine_device

from mmeffvit.cli.arguments import add_cfg_options
from mmeffvit.config.load import load_config
from mmeffvit.errors import UserError
from mmeffvit.models.checkpoints.read import allow_non_finite
from mmeffvit.train.engine.options import RunOptions, TrainOptions, use_device
from mmeffvit.train.engine.processes import (
    arguments_of,
    check_count,
    run_of,
    train_in_processes,
)
from tests.data.sets import write_yolo

OPTIONS = {
    'a.b': 3,
    'c': [1, 2.5, 'x'],
    'd': (4, 5),
    'e': 'text',
    'f': True,
    'g': None,
    'h': [(1, 2), (3, 4)],
    'folder': 'a,b/',
    'digit': '1',
    'flag': 'true',
    'none': 'None',
    'quoted': "'x'",
    'spaces': 'a b',
    'brackets': '(a',
    'dict': dict(type='X', sizes=[(1, '2')], _delete_=True),
    'one': [1],
    'nothing': [],
    'texts': ['1', 'a,b', ''],
    'empty': '',
    'lines': 'a\n=b',
    'literal': 'literal:1',
    'infinite': float('inf'),
}


def test_options_arrive_as_they_were():
    parser = ArgumentParser()
    add_cfg_options(parser)
    texts = arguments_of(RunOptions(cfg_options=OPTIONS, verbose=False))
    assert repr(parser.parse_args(texts).cfg_options) == repr(OPTIONS)
    assert 'folder=literal:' in ' '.join(texts)
    assert "c=[1, 2.5, 'x']" in texts  # as people write it
    assert '--allow-non-finite' not in texts
    assert arguments_of(RunOptions(device='cpu'))[-2:] == ['--device', 'cpu']
    with allow_non_finite():
        assert '--allow-non-finite' in arguments_of(RunOptions())


def test_a_literal_that_cannot_be_read_is_an_error_of_the_command_line(capsys):
    parser = ArgumentParser()
    add_cfg_options(parser)
    for text in ('a=literal:[', 'a=literal:f()', 'a=literal:' + '[' * 999):
        with pytest.raises(SystemExit):
            parser.parse_args(['--cfg-options', text])


def test_the_work_dir_of_a_run_that_is_trained_further_is_its_own(tmp_path):
    load_config('ssdlite_mobilevitv2_050').dump(tmp_path / 'bolts.py')
    torch.save(dict(state_dict={}), tmp_path / 'epoch_1.pth')
    assert run_of(str(tmp_path), RunOptions())[0] == tmp_path
    assert run_of(str(tmp_path), RunOptions(cfg_options={'work_dir': 'w'}))[0] == Path('w')


@pytest.mark.slow
def test_a_failure_is_one_error_and_signals_are_handled_as_before(tmp_path, capfd):
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(UserError, match='training failed; see its output above'):
        train_in_processes(1, 'nothing.py', TrainOptions(work_dir=tmp_path))
    assert signal.getsignal(signal.SIGTERM) is before
    said = capfd.readouterr().err
    assert "error: config 'nothing.py' does not exist" in said
    assert 'Traceback' not in said
    with pytest.raises(UserError, match='--nproc-per-node is 0; give 1 or more'):
        train_in_processes(0, 'nothing.py', TrainOptions())


def test_more_processes_than_gpus_are_rejected_unless_the_cpu_trains(monkeypatch):
    monkeypatch.setattr(mmengine_device, 'DEVICE', 'cuda')
    monkeypatch.setattr(torch.cuda, 'device_count', lambda: 2)
    with pytest.raises(UserError, match='is 3, but there are 2 GPUs: give at most 2'):
        check_count(3)
    with pytest.raises(UserError, match='is 2, but there is 1 GPU: give at most 1'):
        check_count(2, 'cuda:1')
    check_count(2)
    use_device('cpu')
    check_count(3, 'cpu')


def running() -> Iterator[str]:
    """All arguments of all processes."""
    for path in Path('/proc').glob('[0-9]*/cmdline'):
        with contextlib.suppress(OSError):  # it has just ended
            yield from path.read_text(errors='replace').split('\0')


@pytest.mark.slow
@pytest.mark.variant
def test_sigterm_ends_all_processes(tmp_path):
    """Of the command, not of torchrun: no process may go on."""
    root = write_yolo(tmp_path / 'bolts', 16)
    arguments = (root, '--work-dir', tmp_path / 'work', '--weights', 'none', '--batch', 'auto')
    command = [sys.executable, '-m', 'mmeffvit', 'train', *arguments, '--nproc-per-node', 2]
    with (tmp_path / 'log').open('w') as log:
        run = subprocess.Popen(list(map(str, command)), stdout=log, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + 240
        while 'epoch ' not in (tmp_path / 'log').read_text():
            assert time.monotonic() < deadline
            assert run.poll() is None, (tmp_path / 'log').read_text()[-2000:]
            time.sleep(0.5)
        run.send_signal(signal.SIGTERM)
        assert run.wait(60) == 128 + signal.SIGTERM
    finally:
        run.kill()  # of a test that failed
    said = (tmp_path / 'log').read_text()
    assert re.search(r'--batch auto: .* for each of 2 processes', said)
    assert 'with --resume' in said or 'no checkpoint was saved' in said
    assert str(tmp_path / 'work') not in list(running())
