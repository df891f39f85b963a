"""Randomness follows from the seed, the rank and the epoch."""

import random
from functools import partial
from types import SimpleNamespace

import numpy as np
import torch
from mmengine.config import Config
from mmengine.dataset import BaseDataset, worker_init_fn
from mmengine.runner import EpochBasedTrainLoop
from torch.utils.data import DataLoader

from mmeffvit.train.engine.hooks import ResumableRandomnessHook, derive_seed
from mmeffvit.train.engine.launcher import build_runner


def draws_at(epoch: int) -> tuple[float, ...]:
    init = partial(worker_init_fn, num_workers=2, rank=0, seed=3)
    loader = SimpleNamespace(worker_init_fn=init)
    runner = SimpleNamespace(
        train_dataloader=loader,
        seed=3,
        epoch=epoch,
        train_loop=EpochBasedTrainLoop.__new__(EpochBasedTrainLoop),
    )
    ResumableRandomnessHook().before_train_epoch(runner)
    numbers = random.random(), float(np.random.rand()), torch.rand(()).item()
    return *numbers, int(loader.worker_init_fn.seed)


def test_an_epoch_draws_the_same_numbers_whatever_came_before():
    expected = draws_at(5)
    torch.rand(100)
    assert draws_at(5) == expected
    assert not set(draws_at(6)) & set(expected)


def test_seeds_of_neighbours_differ():
    seeds = {
        derive_seed(seed, rank, epoch) for seed in (0, 1) for rank in (0, 1) for epoch in (0, 1)
    }
    assert len(seeds) == 8


class Drawn(BaseDataset):
    """Random numbers, and the number of images that this process has remembered."""

    def __getitem__(self, index: int) -> tuple[int, float, float, int]:
        remembered = self.pipeline.transforms[0](index)
        return index, random.random(), torch.rand(()).item(), remembered


class Remember:
    def __init__(self) -> None:
        self.seen = []

    def __call__(self, index: int) -> int:
        self.seen.append(index)
        return len(self.seen)


def epochs(numbers: list[int], *, persistent: bool) -> list[tuple[list, float]]:
    """What the epochs load, and a number that this process draws in each."""
    dataset = Drawn(lazy_init=True, pipeline=[Remember()])
    loader = DataLoader(
        dataset, sampler=range(8), num_workers=2, persistent_workers=persistent, collate_fn=list,
        worker_init_fn=partial(worker_init_fn, num_workers=2, rank=0, seed=3), batch_size=2,
    )  # fmt: skip
    hook, found = ResumableRandomnessHook(), []
    loop = EpochBasedTrainLoop.__new__(EpochBasedTrainLoop)
    runner = SimpleNamespace(train_dataloader=loader, seed=3, train_loop=loop)
    for runner.epoch in numbers:
        hook.before_train_epoch(runner)
        batches = list(loader)
        hook.before_train_iter(runner, 0)
        found.append((batches, torch.rand(()).item()))
    assert loader.worker_init_fn.loaded[:, 0].sum() == 8 * len(numbers)
    assert loader.worker_init_fn.rate() > 0
    return found


def test_processes_that_outlive_an_epoch_begin_it_like_new_ones():
    expected = epochs([0, 1, 2], persistent=False)
    assert epochs([0, 1, 2], persistent=True) == expected
    assert epochs([1, 2], persistent=True) == expected[1:]  # of a resumed run
    assert expected[0] != expected[1]
    assert expected[0][0][-1][-1][-1] == 4  # images in memory at the end of each epoch


def test_data_loading_processes_end_with_the_run():
    dataset = Drawn(lazy_init=True, pipeline=[Remember()])
    options = dict(num_workers=2, persistent_workers=True, collate_fn=list)
    loader = DataLoader(dataset, sampler=range(8), **options)
    hook, loop = ResumableRandomnessHook(), SimpleNamespace(dataloader=loader)
    next(iter(loader))
    workers = loader._iterator._workers
    assert all(worker.is_alive() for worker in workers)
    hook.after_run(SimpleNamespace(train_loop=loop, val_loop=None))
    assert not any(worker.is_alive() for worker in workers)


def test_deterministic_runs_fill_no_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.utils.deterministic, 'fill_uninitialized_memory', True)
    randomness = dict(seed=0, deterministic=True)
    config = dict(model=torch.nn.Identity(), work_dir=str(tmp_path), randomness=randomness)
    try:
        build_runner(Config(config))
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.utils.deterministic.fill_uninitialized_memory is False
    finally:
        torch.use_deterministic_algorithms(False)
        torch.backends.cudnn.deterministic = False
