"""Attempts at a quantized model, their agreement and speed, and the choice among them."""

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from numpy.typing import NDArray

from mmeffvit.deploy.agreement import DisagreementError, Measure, fidelity, worst
from mmeffvit.deploy.formats.base import Format
from mmeffvit.deploy.runtime.sessions import Session
from mmeffvit.errors import UserError
from mmeffvit.utils.machine import has_int8_dot_product
from mmeffvit.utils.text import counted, listed

ROUNDS = 10  # of the timing
TICK = 0.02  # minimum CPU seconds of a round: some kernels count in steps of 4 to 10 ms


@dataclass(frozen=True)
class Attempt:
    """A quantized model that is not written yet."""

    settings: str  # what was quantized, in words
    excluded: tuple[str, ...]  # names of layers that remain in float
    quantized: int  # number of layers in int8
    open: Callable[[int], Session]  # loads it, with a number of threads
    save: Callable[[Path, Mapping[str, str]], None]  # writes it with metadata


@dataclass(frozen=True)
class Trial:
    """An attempt compared with the float file."""

    kind: Format
    attempt: Attempt
    measures: list[Measure]
    milliseconds: tuple[float, float]  # per image on one thread: the float file's, this model's

    @property
    def agrees(self) -> bool:
        return all(each.agrees for each in self.measures)

    @property
    def speed(self) -> float:
        """Times faster than the float file."""
        return self.milliseconds[0] / self.milliseconds[1]

    def __str__(self) -> str:
        excluded = self.attempt.excluded
        kept = (
            f', {counted(len(excluded), "layer")} in float ({listed(excluded, 4)})'
            if excluded
            else ''
        )
        shown = ', '.join(f'{each.kind} {each.shown}' for each in worst(self.measures))
        return (
            f'{self.kind.runtime}, {self.attempt.settings}{kept}: {shown}, {self.speed:.2f} x float'
        )


def choose(model: Path, trials: Sequence[Trial], *, allow_slower: bool) -> Trial:
    """The fastest among the most faithful models of each runtime.

    Raises:
        UserError: If none agrees, or none is faster than the float file.
    """
    agreeing = [trial for trial in trials if trial.agrees]
    tried = '; '.join(map(str, trials))
    if not agreeing:
        needed = ', '.join(
            f'{each.kind} {each.minimum:g}'
            for each in worst(trials[0].measures)
            if math.isfinite(each.minimum)
        )
        # a .tflite is quantized as a whole
        kept = '' if model.suffix == '.tflite' else ' keep more layers in float with --exclude,'
        raise DisagreementError(
            f'no int8 file of {model} agrees with it ({needed} needed; {tried}); give more images '
            f'similar to those at inference,{kept} or lower --min-agreement'
        )
    by_fidelity = sorted(agreeing, key=lambda trial: fidelity(trial.measures))
    faithful = {trial.kind: trial for trial in by_fidelity}  # the last of each format
    best = max(faithful.values(), key=lambda trial: trial.speed)
    if best.speed < 1 and not allow_slower:
        cause = '' if has_int8_dot_product() else ', whose CPU has no int8 dot product'
        raise UserError(
            f'int8 is slower than float on this host{cause} ({tried}); keep {model}, or give '
            '--allow-slower if the file is for another host'
        )
    return best


def milliseconds(sessions: Sequence[Session], image: NDArray) -> tuple[float, ...]:
    """Median milliseconds of files for one image, interleaved.

    CPU time, so that other load on the host does not count.
    """
    for each in sessions:  # the first run allocates
        each.run(image)
    rounds = [[cpu_seconds(each, image) for each in sessions] for _ in range(ROUNDS)]
    return tuple(1000 * statistics.median(each) for each in zip(*rounds, strict=True))


def cpu_seconds(session: Session, image: NDArray) -> float:
    """CPU seconds per run, over as many runs as the clock needs to resolve them."""
    runs, start, spent = 0, time.process_time(), 0.0
    while spent < TICK:
        session.compute(image)
        runs, spent = runs + 1, time.process_time() - start
    return spent / runs
