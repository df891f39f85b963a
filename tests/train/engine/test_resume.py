"""A run that is killed and resumed ends where an uninterrupted one does."""

import os
import signal
import time
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from mmengine.runner import Runner

from mmeffvit.errors import UserError
from mmeffvit.models.checkpoints.read import read_content
from mmeffvit.train.engine import train as engine
from mmeffvit.train.engine.options import TrainOptions
from mmeffvit.zoo.runs import latest_checkpoint
from tests.conftest import ROOT, message_of, output_of, run_command, run_command_here
from tests.hostile.cases_checkpoints import saved
from tests.hostile.damage import relisted
from tests.hostile.judge import CANARY
from tests.hostile.pickles import BODIES, zipped
from tests.train.engine.test_processes import running
from tests.variants import sampled

SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]

TINY = """
_base_ = BASE
custom_imports = dict(imports=['tests.train.engine.stand_ins'])
custom_hooks = [dict(type='mmengine.KillHook')]
model = dict(
    backbone=dict(
        arch=dict(_delete_=True, channels=(8, 8, 16, 16), depths=(1, 1, 1, 1)),
        drop_path_rate=0.2,
    ),
    neck=dict(in_channels=[8, 8, 16, 16]),
)
train_dataloader = dict(
    batch_size=2, num_workers=2, persistent_workers=True, dataset=dict(indices=6)
)
train_cfg = dict(max_epochs=3, val_interval=10)
param_scheduler = [dict(type='LinearLR', start_factor=0.1, by_epoch=False, end=20)]
default_hooks = dict(logger=dict(interval=2), checkpoint=dict(max_keep_ckpts=2))
"""


@pytest.fixture(scope='module')
def config(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp('config') / 'tiny.py'
    base = str(ROOT / 'configs' / 'maskrcnn_swiftformer_xs_shapes.py')
    path.write_text(TINY.replace('BASE', repr(base)))
    return path


def command(config: Path, work_dir: Path, data: Path, *arguments: object) -> list[object]:
    return [
        'train', config, '--work-dir', work_dir, '--seed', '7', '--no-check', *arguments,
        '--cfg-options', f'data_root={data}/',
    ]  # fmt: skip


def killed_by(number: int) -> dict[str, str]:
    """Environment variables of a run of three iterations an epoch: it ends in its second."""
    return {'KILL_AFTER': '5', 'KILL_SIGNAL': str(int(number))}


@pytest.fixture(scope='module')
def uninterrupted(config, shapes, tmp_path_factory) -> Path:
    work_dir = tmp_path_factory.mktemp('uninterrupted')
    output_of(*command(config, work_dir, shapes))
    return work_dir


def processes_of(work_dir: Path) -> list[str]:
    """Arguments of commands that run there, a moment after the signal that ended them."""
    for _ in range(100):
        found = [argument for argument in running() if str(work_dir) in argument]
        if not found:
            break
        time.sleep(0.05)
    return found


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_weights(config, shapes, uninterrupted, tmp_path):
    killed = run_command(*command(config, tmp_path, shapes), env=killed_by(signal.SIGKILL))
    assert killed.returncode == -9
    assert not processes_of(tmp_path)
    assert latest_checkpoint(tmp_path).path.name == 'epoch_1.pth'
    output_of(*command(config, tmp_path, shapes, '--resume'))
    expected = read_content(uninterrupted / 'epoch_3.pth')
    resumed = read_content(tmp_path / 'epoch_3.pth')
    assert resumed['meta']['iter'] == expected['meta']['iter'] == 9
    for key, value in expected['state_dict'].items():
        # the same operations on the same numbers with the same threads
        torch.testing.assert_close(resumed['state_dict'][key], value, rtol=1e-5, atol=1e-7, msg=key)


@pytest.mark.slow
def test_old_checkpoints_go_and_no_partial_file_stays(uninterrupted):
    assert sorted(p.name for p in uninterrupted.glob('*.pth*')) == ['epoch_2.pth', 'epoch_3.pth']


@pytest.mark.slow
@pytest.mark.parametrize(('number', 'code'), sampled(SIGNALS, SIGNALS[:1]))
def test_an_interrupted_run_says_what_is_saved_and_how_to_continue(
    config, shapes, tmp_path, number, code, monkeypatch
):
    for name, value in killed_by(number).items():
        monkeypatch.setenv(name, value)
    run = run_command_here(*command(config, tmp_path, shapes))
    assert run.returncode == code, run.stdout
    last = run.stdout.strip().splitlines()[-1]
    assert last.startswith(f'interrupted; the last checkpoint is {tmp_path}/epoch_1.pth: ')
    assert last.endswith('with --resume to continue')
    assert 'Traceback' not in run.stdout


INVALID: dict[str, Callable[[Path], Any]] = {
    'empty': lambda path: path.touch(),
    'one byte': lambda path: path.write_bytes(b'P'),
    'folder': lambda path: path.mkdir(),
    'pipe': lambda path: os.mkfifo(path),
    'loop of links': lambda path: path.symlink_to(path.name),
    'dangling link': lambda path: path.symlink_to('nowhere'),
    'payload': lambda path: path.write_bytes(zipped(BODIES['os.system'])),
    'half': lambda path: path.write_bytes((path.parent / 'epoch_2.pth').read_bytes()[:90_000]),
    'flipped list': lambda path: path.write_bytes(
        relisted((path.parent / 'epoch_2.pth').read_bytes(), 10, 'H', 77)
    ),
    'bare state dict': lambda path: path.write_bytes(saved({'a': torch.ones(1)})),
    'list': lambda path: path.write_bytes(saved([1])),
    'no permission': lambda path: (path.write_bytes(b'x'), path.chmod(0)),
}


@pytest.mark.slow
def test_auto_resume_says_why_it_passes_over_what_is_not_valid(uninterrupted, tmp_path, log):
    (tmp_path / 'epoch_2.pth').write_bytes((uninterrupted / 'epoch_2.pth').read_bytes())
    for number, make in enumerate(INVALID.values(), 3):
        make(tmp_path / f'epoch_{number}.pth')
    assert latest_checkpoint(tmp_path).path == tmp_path / 'epoch_2.pth'
    assert not Path(CANARY).exists()
    for number, name in enumerate(INVALID, 3):
        assert f'epoch_{number}.pth' in log.text, name


@pytest.mark.slow
def test_a_run_without_a_valid_checkpoint_overwrites_nothing(config, shapes, tmp_path):
    (tmp_path / 'epoch_2.pth').write_bytes(b'mine')
    message = message_of(run_command_here(*command(config, tmp_path, shapes, '--resume')))
    assert 'can be resumed: move them away' in message
    assert (tmp_path / 'epoch_2.pth').read_bytes() == b'mine'


def rename_weight(content: dict) -> None:
    state = content['state_dict']
    state['other'] = state.pop(next(iter(state)))


def change_all(content: dict, kind: torch.dtype) -> None:
    state = content['state_dict']
    floats = {key: value.to(kind) for key, value in state.items() if value.is_floating_point()}
    content['state_dict'] = {**state, **floats}


MISFITS = {
    'half': (lambda content: change_all(content, torch.half), 'float16 in the file, torch.float32'),
    'huge iteration': (
        lambda content: content['meta'].update(iter=10**9),
        'meta.iter is 1000000000, and the config trains to 9'),
    'classes': (
        lambda content: content['meta'].update(dataset_meta=dict(classes=[1])),
        r'meta.dataset_meta.classes is \[1\]; it must be a list of names'),
    'hub': (lambda content: content['message_hub'].pop('log_scalars'), 'lacks message_hub.log_sc'),
    'keys': (rename_weight, r'not in the model \(1\): other'),
    'another optimizer': (
        lambda content: content['optimizer']['param_groups'][0].pop('betas'), 'its optimizer has'),
    'fewer parameters': (
        lambda content: content['optimizer']['param_groups'][0]['params'].pop(),
        'its optimizer has'),
    'no schedulers': (lambda content: content.pop('param_schedulers'), '0 parameter sched'),
}  # fmt: skip


@pytest.fixture(scope='module')
def resumed(config, shapes, uninterrupted, tmp_path_factory) -> Runner:
    """A run that is resumed, before its first step."""
    options = TrainOptions(
        tmp_path_factory.mktemp('resumed'),
        cfg_options={'data_root': f'{shapes}/'},
        seed=7,
        resume=str(uninterrupted / 'epoch_2.pth'),
        check=False,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, 'run', lambda *_: None)
        runner = engine.train(str(config), options)
    resume(runner, uninterrupted / 'epoch_2.pth')  # what misfits are made from
    return runner


@pytest.mark.slow
def test_a_short_run_logs_the_loss_of_every_step(resumed):
    assert resumed.log_processor.window_size == 1  # of 50 in the config


def resume(runner: Runner, path: Path) -> None:
    engine.check_start(runner, engine.open_resumed(runner.cfg, str(path)), runner.cfg)


@pytest.mark.slow
@pytest.mark.parametrize('name', MISFITS)
def test_a_resume_is_strict(resumed, uninterrupted, tmp_path, name):
    misfit, words = MISFITS[name]
    content = deepcopy(read_content(uninterrupted / 'epoch_2.pth'))
    misfit(content)
    torch.save(content, tmp_path / 'epoch_2.pth')
    with pytest.raises(UserError, match=words):
        resume(resumed, tmp_path / 'epoch_2.pth')


def test_numbers_decide_which_checkpoint_is_newest(tmp_path):
    hub = dict(log_scalars={}, runtime_info={}, resumed_keys={})
    content = {'meta': dict(epoch=1, iter=1), 'state_dict': {'a': torch.ones(1)}}
    content |= {'message_hub': hub, 'optimizer': {}}
    for name in ('epoch_9', 'epoch_10', 'best_coco_bbox_mAP_epoch_11'):
        torch.save(content, tmp_path / f'{name}.pth')
    assert latest_checkpoint(tmp_path).path.name == 'epoch_10.pth'
    assert latest_checkpoint(tmp_path / 'empty') is None
