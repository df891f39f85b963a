"""Timing files in rounds, each in its own process, so that load on the host affects all."""

import os
import pickle
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from mmeffvit.deploy.compare import Steps
from mmeffvit.errors import UserError
from mmeffvit.utils.text import MAX_REASON

from .layers import timed
from .worker import CLOCKS, Job, Memory

ROUNDS = 5
FINAL_ROUNDS = 10  # more, for those that may be the fastest
CLOSE = 1.15  # times the fastest
# torch would hide the memory of the others
PROGRAM = """
import sys
sys.path[:] = {path}
if not {torch}:
    sys.modules['torch'] = None
from mmeffvit.deploy.profile.worker import main
main()
"""
Key = TypeVar('Key', bound=Hashable)


@dataclass(frozen=True)
class Timing:
    """Times of a file with a number of threads.

    Args:
        threads: Number of threads.
        seconds: Time of every run, with the last steps.
        last_steps: Median seconds of the last steps, which the file does not have.
        memory: Memory of the process.
    """

    threads: int
    seconds: tuple[float, ...]
    last_steps: float
    memory: Memory

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> tuple[float, float]:
        """First and last decile."""
        if len(self.seconds) < 2:
            return self.seconds * 2
        low, *_, high = statistics.quantiles(self.seconds, n=10, method='inclusive')
        return low, high


class Worker:
    """The parent's side of a process that runs a file, and its times, collected round by round.

    Raises:
        UserError: If the file cannot be run; also from the methods.
    """

    def __init__(
        self, process: subprocess.Popen, log: Any, job: Job, last_steps: Steps | None
    ) -> None:
        self.process = process
        self.log = log
        self.job = job
        self.last_steps = last_steps
        self.seconds: list[float] = []
        self.steps: list[float] = []  # seconds of the last steps
        self.first = self.ask(job)  # the outputs, or times of layers

    def ask(self, message: object) -> Any:
        try:
            pickle.dump(message, self.process.stdin)
            self.process.stdin.flush()
            answer = pickle.load(self.process.stdout)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError) as error:  # also in an answer
            code = self.process.wait()
            self.log.seek(0)
            text = ' '.join(self.log.read().decode(errors='replace').split())
            raise UserError(f'its process ended with code {code} ({text[-MAX_REASON:]})') from error
        if isinstance(answer, UserError):
            raise answer
        return answer

    def run_round(self, seconds: float) -> None:
        times = self.ask(seconds)
        after = 0.0
        if self.last_steps is not None:
            with torch_threads(self.job.threads):
                clock = CLOCKS[self.job.clock]
                steps = timed(lambda: self.last_steps(self.first), seconds / 4, clock)
            after = statistics.median(steps)
            self.steps.append(after)
        self.seconds += [each + after for each in times]

    def timing(self) -> Timing:
        steps = statistics.median(self.steps) if self.steps else 0.0
        return Timing(self.job.threads, tuple(self.seconds), steps, self.ask(None))


@contextmanager
def working(job: Job, last_steps: Steps | None = None) -> Iterator[Worker]:
    """Run a file in a process, which ends with the block."""
    program = PROGRAM.format(path=sys.path, torch=job.needs_torch)
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, '-c', program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, 'OMP_NUM_THREADS': str(job.threads)},
        )
        try:
            yield Worker(process, log, job, last_steps)
        finally:
            process.kill()
            process.communicate()


def time_in_rounds(
    jobs: Mapping[Key, Job], seconds: float, last_steps: Mapping[Key, Steps | None] | None = None
) -> tuple[dict[Key, Timing], dict[Key, str]]:
    """Time files in rounds.

    Args:
        jobs: The files, with the same number of threads.
        seconds: Time for each, about three times as much for those that may be the fastest.
        last_steps: What the application does with the outputs of a file, timed here and added.

    Returns:
        Times, and for files that cannot be run the reasons.
    """
    failures: dict[Key, str] = {}
    with ExitStack() as stack:
        workers: dict[Key, Worker] = {}
        for key, job in jobs.items():
            try:
                workers[key] = stack.enter_context(working(job, (last_steps or {}).get(key)))
            except UserError as error:
                failures[key] = str(error)
        run_rounds(workers, list(workers), ROUNDS, seconds / ROUNDS, failures)
        medians = {
            key: statistics.median(worker.seconds)
            for key, worker in workers.items()
            if key not in failures
        }
        fastest = min(medians.values(), default=0.0)
        close = [key for key, median in medians.items() if median <= CLOSE * fastest]
        if len(close) > 1:
            run_rounds(workers, close, FINAL_ROUNDS, seconds / ROUNDS, failures)
        found: dict[Key, Timing] = {}
        for key in (each for each in workers if each not in failures):
            try:
                found[key] = workers[key].timing()
            except UserError as error:
                failures[key] = str(error)
    return found, failures


def run_rounds(
    workers: Mapping[Key, Worker],
    keys: Sequence[Key],
    rounds: int,
    seconds: float,
    failures: dict[Key, str],
) -> None:
    """Run every file once per round; failed ones are skipped from then on."""
    for _ in range(rounds):
        for key in keys:
            if key not in failures:
                try:
                    workers[key].run_round(seconds)
                except UserError as error:
                    failures[key] = str(error)


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
