"""Random states that a resumed run reproduces, and the rates of data loading and model."""

import random
import time
from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
import torch
from mmengine.dataset import worker_init_fn
from mmengine.dist import get_rank, get_world_size
from mmengine.hooks import Hook
from mmengine.runner import EpochBasedTrainLoop, Runner
from torch.utils.data import get_worker_info


def derive_seed(*numbers: int) -> int:
    """Mix ``numbers`` into one seed below 2**31."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0] >> 1)


def seed_all(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


class ResumableRandomnessHook(Hook):
    """Make random numbers depend on (seed, rank, epoch) alone, so that a resumed run matches.

    mmengine seeds only at the start. Under an epoch-based loop, this hook seeds this process and
    its data loading processes at every epoch. Under an iteration-based loop, it seeds this process
    at every iteration; there the loop itself replays the data loading, exactly if it has processes
    of its own (``num_workers`` > 0).
    """

    priority = 'VERY_HIGH'

    def before_train_epoch(self, runner: Runner) -> None:
        loader = runner.train_dataloader
        seed = derive_seed(runner.seed, get_rank(), runner.epoch)
        seed_all(seed)
        init = loader.worker_init_fn
        if isinstance(init, partial) and init.func is worker_init_fn:
            loader.worker_init_fn = init = WorkerSeeds(init)
        if isinstance(init, WorkerSeeds):
            init.seed.fill_(seed)
        self.before = getattr(loader, '_iterator', None)  # of processes that outlive an epoch

    def before_train_iter(self, runner: Runner, batch_idx: int, data_batch: object = None) -> None:
        if not isinstance(runner.train_loop, EpochBasedTrainLoop):
            seed_all(derive_seed(runner.seed, get_rank(), runner.iter))
        elif batch_idx == 0 and runner.train_dataloader._iterator is self.before is not None:
            torch.empty((), dtype=torch.int64).random_()  # new processes are seeded by it

    def after_run(self, runner: Runner) -> None:
        """End the data loading processes: garbage collection would wait five seconds for each."""
        self.before = None
        for loop in (runner.train_loop, runner.val_loop):
            if getattr(getattr(loop, 'dataloader', None), '_iterator', None) is not None:
                loop.dataloader._iterator = None


class WorkerSeeds:
    """Starts data loading processes, and has them begin every epoch like new ones.

    A process that outlives an epoch is seeded again before its first batch of the next, and its
    pipelines, which may cache images for mosaics, are reset.

    Args:
        start: mmengine's function that seeds a process, as a partial one.
    """

    def __init__(self, start: partial) -> None:
        self.start = start
        self.seed = torch.zeros((), dtype=torch.int64).share_memory_()  # read by the processes
        count = start.keywords['num_workers'] or 0  # may be None
        # images and seconds of each process
        self.loaded = torch.zeros(count, 2).double().share_memory_()

    def __call__(self, worker: int) -> None:
        dataset = get_worker_info().dataset  # the copy of this process
        fetch = getattr(dataset, '__getitems__', None)
        current = self.restart(worker)
        kept = copied_pipelines(dataset)

        def fetch_in_epoch(indices: list[int]) -> list[Any]:
            nonlocal current
            if current != int(self.seed):
                for owner, pipeline in kept:
                    owner.pipeline = deepcopy(pipeline)
                current = self.restart(worker)
            begun = time.monotonic()
            found = fetch(indices) if fetch else [dataset[index] for index in indices]
            self.loaded[worker] += torch.tensor([len(found), time.monotonic() - begun])
            return found

        dataset.__getitems__ = fetch_in_epoch

    def rate(self) -> float | None:
        """Images per second that all processes can load; None if there are none."""
        images, seconds = self.loaded[self.loaded[:, 0] > 0].unbind(dim=1)
        return float((images / seconds).sum()) if len(images) else None

    def restart(self, worker: int) -> int:
        seed = int(self.seed)
        self.start.func(worker, **{**self.start.keywords, 'seed': seed})
        return seed


def nested_datasets(dataset: Any) -> Iterator[Any]:
    """A dataset, and all that it wraps."""
    yield dataset
    for inner in getattr(dataset, 'datasets', None) or [getattr(dataset, 'dataset', None)]:
        if inner is not None:
            yield from nested_datasets(inner)


def copied_pipelines(dataset: Any) -> list[tuple[Any, Any]]:
    """All datasets in ``dataset`` that have a pipeline, each with a copy of it."""
    owners = [each for each in nested_datasets(dataset) if hasattr(each, 'pipeline')]
    return [(owner, deepcopy(owner.pipeline)) for owner in owners]


def rates(runner: Runner, images: int, steps: int) -> tuple[float, float]:
    """Images per second that this run can load, and that its model can take.

    ``images`` is their number per step; the average is over the last ``steps``.
    """
    hub, init = runner.message_hub, runner.train_dataloader.worker_init_fn
    waited, total = (hub.get_scalar(f'train/{key}').mean(steps) for key in ('data_time', 'time'))
    loading = init.rate() if isinstance(init, WorkerSeeds) else None
    loading = images / max(waited, 1e-9) if loading is None else loading * get_world_size()
    return loading, images / max(total - waited, 1e-9)
