"""Our hooks give the weights, EMA weights and logs of mmengine's, and wait for less."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.logging import HistoryBuffer, MessageHub
from mmengine.model import BaseAveragedModel, BaseModel
from mmengine.optim import OptimWrapper
from mmengine.registry import DATASETS, MODELS
from mmengine.runner import Runner
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import Dataset

from mmeffvit.models.checkpoints.read import read_content
from mmeffvit.train.engine.launcher import build_runner
from mmeffvit.train.engine.scalars import log_scalar
from tests.conftest import run_python

STEPS, INTERVAL = 12, 5


@MODELS.register_module()
class Regressor(BaseModel):
    """A model with norms and with a convolution that two levels share."""

    def __init__(self) -> None:
        super().__init__()
        self.levels = nn.ModuleList(
            nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4)) for _ in range(2)
        )
        self.levels[1][0] = self.levels[0][0]
        self.frozen = nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, images: Tensor, mode: str = 'tensor') -> dict[str, Tensor]:
        first, second = (level(images) for level in self.levels)
        losses = [first.square().mean(), (second - 1).square().mean()]
        return dict(loss_first=losses[0], loss_second=losses[1], positive=(first > 0).float())

    def train_step(self, data: dict, optim_wrapper: OptimWrapper) -> dict:
        return {**super().train_step(data, optim_wrapper), 'num_images': 2}


@MODELS.register_module()
class SquaredMean(BaseAveragedModel):
    """An average that is not linear."""

    def avg_func(self, averaged_param: Tensor, source_param: Tensor, steps: int) -> None:
        squares = averaged_param.square().lerp(source_param.square(), 0.1)
        averaged_param.copy_(squares.sqrt())


@DATASETS.register_module()
class Noise(Dataset):
    def __len__(self) -> int:
        return 2 * STEPS

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return dict(images=torch.randn(3, 6, 6, generator=torch.Generator().manual_seed(index)))


def train(
    work_dir: Path, ema: dict | None = None, *, ours: bool, deterministic: bool = False
) -> Runner:
    scope = 'mmeffvit.' if ours else ''
    torch.manual_seed(0)
    constructor = f'{scope}Merged' if ours else 'Default'
    ema = dict(momentum=0.01) if ema is None else ema
    runner = build_runner(Config(dict(
        model=dict(type='Regressor'),
        work_dir=str(work_dir),
        experiment_name=f'{work_dir.name}{ours}',
        train_dataloader=dict(
            dataset=dict(type='Noise'),
            sampler=dict(type='DefaultSampler', shuffle=True),
            collate_fn=dict(type='default_collate'),
            batch_size=2,
        ),
        train_cfg=dict(by_epoch=True, max_epochs=2),
        optim_wrapper=dict(
            optimizer=dict(type='SGD', lr=0.1, momentum=0.9, foreach=False),
            constructor=f'{constructor}OptimWrapperConstructor',
            clip_grad=dict(max_norm=1.0),
        ),
        default_hooks=dict(
            logger=dict(type='LoggerHook', interval=INTERVAL),
            runtime_info=dict(type=f'{scope}RuntimeInfoHook'),
        ),
        custom_hooks=[dict(type=f'{scope}EMAHook', **ema)],
        randomness=dict(seed=0, deterministic=deterministic),
        default_scope='mmengine',
    )))  # fmt: skip
    runner.train()
    return runner


@pytest.fixture(scope='module')
def runs(tmp_path_factory) -> dict[bool, Path]:
    work_dirs = {ours: tmp_path_factory.mktemp('ours' if ours else 'stock') for ours in (0, 1)}
    for ours, work_dir in work_dirs.items():
        train(work_dir, ours=bool(ours))
    return work_dirs


AVERAGES = {
    'constant': dict(momentum=0.01),
    'with buffers': dict(momentum=0.01, update_buffers=True),
    'every other step': dict(momentum=0.01, interval=2, update_buffers=True),
    'from step 4': dict(momentum=0.01, begin_iter=4),
    'annealed': dict(ema_type='MomentumAnnealingEMA', momentum=0.01),
    'mean': dict(ema_type='StochasticWeightAverage'),
    'of mmdet': dict(ema_type='mmdet.ExpMomentumEMA', gamma=10, update_buffers=True),
    'not linear': dict(ema_type='SquaredMean'),
}


@pytest.mark.parametrize('name', AVERAGES)
def test_ema_weights_and_checkpoints_are_those_of_mmengine(name, tmp_path):
    stock, ours = (train(tmp_path / str(own), AVERAGES[name], ours=own) for own in (False, True))
    expected, found = (read_content(run.work_dir + '/epoch_2.pth') for run in (stock, ours))
    assert found.keys() == expected.keys()
    for section in ('state_dict', 'ema_state_dict'):
        assert list(found[section]) == list(expected[section])
        for key, value in expected[section].items():
            torch.testing.assert_close(found[section][key], value, rtol=1e-6, atol=1e-7, msg=key)
    start = Regressor().levels[0][1].running_mean
    assert not torch.equal(found['ema_state_dict']['module.levels.0.1.running_mean'], start)


def log_of(work_dir: Path) -> list[dict]:
    (path,) = work_dir.glob('*/vis_data/scalars.json')
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [{k: v for k, v in row.items() if 'time' not in k} for row in rows]


def test_the_log_is_that_of_mmengine(runs):
    assert log_of(runs[True]) == log_of(runs[False])
    assert len(log_of(runs[True])) == 2 * (STEPS // INTERVAL)
    rows = {ours: list(log_of(runs[ours])[0]) for ours in runs}
    assert rows[True] == rows[False]  # in the same order
    hubs = {ours: read_content(runs[ours] / 'epoch_2.pth')['message_hub'] for ours in runs}
    stock, ours = (hubs[own]['log_scalars'] for own in (False, True))
    assert list(ours) == list(stock)
    for key in stock:
        assert type(ours[key]) is HistoryBuffer
        for found, expected in zip(ours[key].data, stock[key].data, strict=True):
            assert found.dtype == expected.dtype
            assert found.shape == expected.shape == (2 * STEPS,)
            if 'time' not in key:
                np.testing.assert_array_equal(found, expected)


class Waits(TorchDispatchMode):
    """Counts conversions of floats to numbers, and of scalars to one tensor."""

    count = stacks = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten._local_scalar_dense.default:
            self.count += args[0].is_floating_point() and args[0].dtype != torch.float64
        if func is torch.ops.aten.stack.default:
            self.stacks += args[0][0].ndim == 0
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize('ours', [False, True])
def test_scalars_are_transferred_once_per_logging_interval(ours, tmp_path):
    with Waits() as waits:
        train(tmp_path, dict(update_buffers=True), ours=ours)
    assert waits.count == (0 if ours else 2 * STEPS * 5)  # four values of the model and the norm
    # two lines per epoch, and the rest for its checkpoint; clipping stacks the norms in each step
    assert waits.stacks - 2 * STEPS == (2 * 3 if ours else 0)


def test_a_logged_tensor_may_change_later():
    hub = MessageHub('changed')
    value = torch.ones(1)
    log_scalar(hub, 'x', value)
    value.add_(1)
    hub.update_scalar('x', 3, count=2)
    assert hub.get_scalar('x').mean() == 4 / 3


def test_deterministic_runs_fill_no_memory(runs, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.utils.deterministic, 'fill_uninitialized_memory', True)
    try:
        train(tmp_path, ours=True, deterministic=True)
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.utils.deterministic.fill_uninitialized_memory is False
    finally:
        torch.use_deterministic_algorithms(False)
        torch.backends.cudnn.deterministic = False
    assert log_of(tmp_path) == log_of(runs[True])


STATISTICS = """
import os
from types import SimpleNamespace
import torch
from mmengine.hooks import CheckpointHook
from mmeffvit.train.engine.ema import EMAHook

child = os.fork()
rank = int(not child)
address = 'file://{file}'
torch.distributed.init_process_group('gloo', init_method=address, rank=rank, world_size=2)
norm = torch.nn.BatchNorm1d(1)
norm.running_mean.fill_(rank)
saving = CheckpointHook(interval=2, by_epoch=False)
runner = SimpleNamespace(model=norm, iter=1, epoch=0, max_iters=9, hooks=[saving])
hook = EMAHook(update_buffers=True)
hook.before_run(runner)
hook.before_train_epoch(runner)
{event}
saved = float(hook.ema_model.module.running_mean)
norm.running_mean.fill_(-rank)  # swapped with that of the EMA weights
hook.before_val_epoch(runner)
averaged = hook.ema_model.module
found = f'{{rank}} {{saved}} {{float(norm.running_mean)}} {{float(averaged.running_mean)}}'
os.write(1, (found + os.linesep).encode())  # in one call: lines of two processes do not mix
torch.distributed.barrier()
os._exit(0) if rank else os.waitpid(child, 0)
"""


# a checkpoint at the end of an epoch, and one after the second step
@pytest.mark.parametrize(
    'event', ['hook.after_train_epoch(runner)', 'hook.after_train_iter(runner, 1)']
)
def test_processes_validate_and_save_the_same_statistics_of_norms(event, tmp_path):
    done = run_python('-c', STATISTICS.format(file=tmp_path / 'store', event=event))
    lines = sorted(line for line in done.stdout.splitlines() if line[:2] in ('0 ', '1 '))
    assert lines == [f'{rank} 0.5 0.5 -0.5' for rank in range(2)], done.stdout
