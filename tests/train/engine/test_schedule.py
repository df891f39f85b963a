"""A resumed run follows the schedule of its config, also if that has become longer."""

from pathlib import Path

import pytest
import torch
from mmengine.hooks import Hook
from mmengine.runner import Runner

from mmeffvit.train.engine.resume import ScheduleHook
from tests.cli.test_console import Model

BATCHES = 3


class Rates(Hook):
    """The learning rate and the momentum of every step."""

    priority = 'VERY_LOW'

    def __init__(self) -> None:
        self.seen: list[tuple[float, float]] = []

    def before_train_iter(self, runner: Runner, *args: object, **options: object) -> None:
        group = runner.optim_wrapper.param_groups[0]
        self.seen.append((group['lr'], group['momentum']))


def schedule(epochs: int, *, by_epoch: bool) -> list[dict]:
    end = epochs if by_epoch else epochs * BATCHES
    options = dict(by_epoch=by_epoch)
    return [
        dict(type='LinearLR', start_factor=0.1, begin=0, end=2, **options),
        dict(type='CosineAnnealingLR', begin=2, end=end, T_max=end - 2, eta_min=1e-4, **options),
        dict(type='CosineAnnealingMomentum', end=end, T_max=end, eta_min=0.5, **options),
    ]


def train(
    folder: Path, epochs: int, *, by_epoch: bool, resume: Path | None = None, with_hook: bool = True
) -> list[tuple[float, float]]:
    torch.manual_seed(0)
    data = [dict(inputs=torch.zeros(3, 4, 4)) for _ in range(2 * BATCHES)]
    loader = dict(dataset=data, sampler=dict(type='DefaultSampler'), batch_size=2, num_workers=0)
    runner = Runner(
        Model(), str(folder), train_dataloader=loader,
        train_cfg=dict(by_epoch=True, max_epochs=epochs),
        optim_wrapper=dict(optimizer=dict(type='SGD', lr=0.1, momentum=0.9)),
        param_scheduler=schedule(epochs, by_epoch=by_epoch), default_scope='mmengine',
        experiment_name=f'{folder}_{resume}_{with_hook}', resume=resume is not None,
        load_from=resume and str(resume),
    )  # fmt: skip
    rates = Rates()
    for hook in (rates, ScheduleHook()) if with_hook else (rates,):
        runner.register_hook(hook)
    runner.train()
    return rates.seen


@pytest.mark.parametrize('by_epoch', [False, True])
def test_a_run_that_is_made_longer_continues_on_the_schedule_of_a_longer_one(by_epoch, tmp_path):
    expected = train(tmp_path / 'long', 6, by_epoch=by_epoch)
    train(tmp_path / 'short', 4, by_epoch=by_epoch)
    done = tmp_path / 'short' / 'epoch_4.pth'
    found = train(tmp_path / 'resumed', 6, by_epoch=by_epoch, resume=done)
    assert len(found) == 2 * BATCHES
    assert found == expected[4 * BATCHES :]


def test_a_run_with_the_same_schedule_resumes_as_mmengine_does(tmp_path, log):
    expected = train(tmp_path / 'all', 4, by_epoch=False)
    half = tmp_path / 'all' / 'epoch_2.pth'
    for with_hook in (False, True):
        found = train(
            tmp_path / f'{with_hook}', 4, by_epoch=False, resume=half, with_hook=with_hook
        )
        assert found == expected[2 * BATCHES :]
    assert 'the schedule has changed' not in log.text
