"""Randomness follows from the seed, the rank and the epoch."""

import random
from types import SimpleNamespace

import numpy as np
import torch
from mmengine.runner import EpochBasedTrainLoop

from mmeffvit.engine.hooks import ResumableRandomnessHook, derive_seed


def draws_at(epoch: int) -> tuple[float, ...]:
    loader = SimpleNamespace(
        batch_sampler=SimpleNamespace(sampler=SimpleNamespace(seed=None)), worker_init_fn=None
    )
    runner = SimpleNamespace(
        train_dataloader=loader,
        seed=3,
        epoch=epoch,
        train_loop=EpochBasedTrainLoop.__new__(EpochBasedTrainLoop),
    )
    ResumableRandomnessHook().before_train_epoch(runner)
    assert loader.batch_sampler.sampler.seed == 3
    return random.random(), float(np.random.rand()), torch.rand(()).item()


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
