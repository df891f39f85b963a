"""Timing files in rounds, each in its own process, so that load on the host affects all."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from mmeffvit.errors import UserError
from mmeffvit.utils.text import MAX_REASON, reason

from .worker import CLOCKS, Job, timed

ROUNDS = 5
FINAL_ROUNDS = 10  # more, for those that may be the fastest
CLOSE = 1.15  # times the fastest
COMMAND = (sys.executable, '-m', 'mmeffvit.deploy.profile.worker')
Key = TypeVar('Key', bound=Hashable)
Answer = dict[str, Any]


@dataclass(frozen=True)
class Timing:
    """Times of a file with a number of threads, and the memory of its process."""

    threads: int
    seconds: tuple[float, ...]  # of every run, with the last steps
    last_steps: float  # seconds of those that the file does not have
    peak: int = 0  # resident memory in bytes, with Python and the runtime
    added: int = 0  # increase of the peak since before the file was loaded

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> tuple[float, float]:
        """First and last decile."""
        return tuple(np.quantile(self.seconds, (0.1, 0.9)).tolist())


@contextmanager
def working(job: Job) -> Iterator[Callable[[object], Answer]]:
    """Run a file in a process, which ends with the block.

    Gives a function that returns the times and memory of runs for a number of seconds.

    Raises:
        UserError: If the file cannot be run; also by the function.
    """
    if job.graph is not None:
        yield working_here(job)
        return
    variables = {
        'OMP_NUM_THREADS': str(job.threads),
        'PYTHONPATH': os.pathsep.join(sys.path),
        'PYTHONSAFEPATH': '1',  # packages are not imported from the current folder
    }
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
            env={**os.environ, **variables},
        )  # fmt: skip

        def ask(line: object) -> Answer:
            with suppress(BrokenPipeError):  # it has ended, as its answer tells
                process.stdin.write(f'{line}\n')
                process.stdin.flush()
            answer = process.stdout.readline()
            if not answer.endswith('\n'):
                code = process.wait()
                log.seek(0)
                text = ' '.join(log.read().decode(errors='replace').split())
                raise UserError(f'its process ended with code {code} ({text[-MAX_REASON:]})')
            values = json.loads(answer)
            if 'error' in values:
                raise UserError(values['error'])
            return values

        try:
            ask(json.dumps(vars(job), default=str))
            yield ask
        finally:
            process.kill()
            process.communicate()


def working_here(job: Job) -> Callable[[object], Answer]:
    """A model in PyTorch on a GPU, which runs in this process; its memory is not measured."""
    try:
        session, images = job.open(), np.load(job.images)
        session.run(images)
    except Exception as error:  # of the GPU, as when its memory is full
        raise UserError(reason(error)) from error
    clock = CLOCKS[job.clock]
    return lambda line: dict(times=timed(lambda: session.compute(images), float(line), clock))


def time_in_rounds(
    jobs: Mapping[Key, Job], seconds: float, last_steps: Mapping[Key, float] | None = None
) -> tuple[dict[Key, Timing], dict[Key, str]]:
    """Times of files, all with the same number of threads, and why others cannot be run.

    Each is run for some ``seconds``, and those that may be the fastest about three times as long;
    ``last_steps`` are the seconds of what the application does after each run of a file.
    """
    failures: dict[Key, str] = {}
    timings = {key: Timing(job.threads, (), (last_steps or {}).get(key, 0.0))
               for key, job in jobs.items()}  # fmt: skip
    with ExitStack() as stack:
        asks: dict[Key, Callable[[object], Answer]] = {}

        def run_round(keys: Iterable[Key]) -> None:
            for key in [key for key in keys if key in timings]:
                try:
                    if key not in asks:
                        asks[key] = stack.enter_context(working(jobs[key]))
                    answer, known = asks[key](seconds / ROUNDS), timings[key]
                    times = (each + known.last_steps for each in answer.pop('times'))
                    timings[key] = replace(known, seconds=(*known.seconds, *times), **answer)
                except UserError as error:
                    failures[key] = str(error)
                    del timings[key]

        for _ in range(ROUNDS):
            run_round(jobs)
        fastest = min((timing.median for timing in timings.values()), default=0.0)
        close = [key for key, timing in timings.items() if timing.median <= CLOSE * fastest]
        for _ in range(FINAL_ROUNDS if len(close) > 1 else 0):
            run_round(close)
    return timings, failures
