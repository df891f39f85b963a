"""Timing of several candidates in turns, so that load on the machine affects all of them."""

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from mmeffvit.data.prepare import without_collection
from mmeffvit.deploy.profile.rounds import time_in_rounds
from mmeffvit.deploy.profile.worker import Job

Samples = dict[str, list[float]]  # seconds of every round, by candidate


@dataclass(frozen=True)
class Budget:
    """How long to measure."""

    seconds: float = 4.0  # after which no further round is started
    min_rounds: int = 5
    max_rounds: int = 50
    warm_up: int = 2  # further rounds before


QUICK = Budget(seconds=0.5, min_rounds=2, max_rounds=5, warm_up=1)


def interleave(
    candidates: Mapping[str, Callable[[], object]],
    budget: Budget,
    clock: Callable[[], float] = time.perf_counter,
) -> Samples:
    """Run A, B, C, A, B, C and so on, and time each call, which must be synchronous."""
    for _ in range(budget.warm_up):
        for run in candidates.values():
            run()
    samples: Samples = {name: [] for name in candidates}
    gc.collect()
    with without_collection():
        start = clock()
        for finished in range(budget.max_rounds):
            if finished >= budget.min_rounds and clock() - start >= budget.seconds:
                break
            for name, run in candidates.items():
                before = clock()
                run()
                samples[name].append(clock() - before)
    return samples


@dataclass(frozen=True)
class Ratio:
    """The speedup of one candidate over another."""

    median: float  # ratio of the medians; above 1 if the first is faster
    low: float  # first decile of the per-round ratios
    high: float  # last decile

    def __str__(self) -> str:
        return f'{self.median:.2f} ({self.low:.2f} to {self.high:.2f})'


def speed_up(ours: Sequence[float], peer: Sequence[float]) -> Ratio:
    """The speedup of ``ours``; both are seconds of the same rounds.

    Raises:
        ValueError: If the numbers of rounds differ.
    """
    rounds = [theirs / own for own, theirs in zip(ours, peer, strict=True)]
    return Ratio(
        statistics.median(peer) / statistics.median(ours), *np.quantile(rounds, (0.1, 0.9)).tolist()
    )


def time_files(jobs: Mapping[str, Job], seconds: float) -> Samples:
    """Time files as the profiler does: each in its own process, in turns of many runs.

    In one process, or with single runs in turns, a file would find the caches and the memory as
    others have left them, unlike in an application.

    Args:
        jobs: The files, all with the same number of threads.
        seconds: Time for each.

    Returns:
        Twentieths of the distribution of times, by file.

    Raises:
        RuntimeError: If one does not run.
    """
    found, failures = time_in_rounds(jobs, seconds)
    if failures:
        raise RuntimeError(f'files do not run: {failures}')
    return {name: statistics.quantiles(each.seconds, n=20) for name, each in found.items()}


def waiting_for(device: str, run: Callable[[], object]) -> Callable[[], object]:
    """``run`` with a synchronization of the device."""
    if device == 'cpu':
        return run

    def synchronized() -> None:
        run()
        torch.cuda.synchronize()

    return synchronized
