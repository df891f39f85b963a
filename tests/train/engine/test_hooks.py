"""Randomness follows from the seed, the rank and the epoch."""

import random
from functools import partial
from types import SimpleNamespace

import numpy as np
import torch
from mmengine.config import Config
from mmengine.dataset import worker_init_fn
from mmengine.runner import EpochBasedTrainLoop

from mmeffvit.train.engine.launcher import build_runner
from mmeffvit.train.engine.resume import ResumableRandomnessHook, derive_seed


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
    return *numbers, loader.worker_init_fn.keywords['seed']


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
