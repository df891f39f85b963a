"""Attempts at a quantized model, their agreement and speed, and the choice among them."""

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from numpy.typing import NDArray

from mmeffvit.deploy.agreement import METRIC, DisagreementError, fidelity
from mmeffvit.deploy.runtime.sessions import RUNTIMES, Session
from mmeffvit.errors import UserError
from mmeffvit.utils.machine import has_int8_dot_product
from mmeffvit.utils.text import counted, listed

ROUNDS = 10  # of the timing
TICK = 0.02  # minimum CPU seconds of a round: some kernels count in steps of 4 to 10 ms
# lowest agreement of a file that is written, by measure
MINIMA = {
    'matched objects': 0.9,
    'mean IoU of the masks': 0.8,
    'pixel agreement': 0.95,
    'signal-to-noise ratio, dB': 15.0,
}


@dataclass(frozen=True)
class Attempt:
    """A quantized model that is not written yet.

    Args:
        settings: A description of what was quantized.
        excluded: Names of layers that remain in float.
        quantized: Number of layers in int8.
        open: Loads it, with a number of threads.
        save: Writes it with metadata.
    """

    settings: str
    excluded: tuple[str, ...]
    quantized: int
    open: Callable[[int], Session]
    save: Callable[[Path, Mapping[str, str]], None]


@dataclass(frozen=True)
class Trial:
    """An attempt compared with the float file.

    Args:
        suffix: Suffix of the file.
        attempt: The model.
        measures: Its agreement.
        milliseconds: Median time per image on one thread, of the float file and of this model.
    """

    suffix: str
    attempt: Attempt
    measures: dict[str, float]
    milliseconds: tuple[float, float]

    @property
    def runtime(self) -> str:
        return RUNTIMES[self.suffix]

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
        measures = worst(self.measures)
        measures |= {METRIC: self.measures[METRIC]} if METRIC in self.measures else {}
        shown = ', '.join(f'{name} {value:.4g}' for name, value in measures.items())
        return f'{self.runtime}, {self.attempt.settings}{kept}: {shown}, {self.speed:.2f} x float'


def worst(measures: Mapping[str, float]) -> dict[str, float]:
    """The lowest values of the measures that :data:`MINIMA` limits."""
    return {
        kind: min(value for name, value in measures.items() if name.endswith(kind))
        for kind in MINIMA
        if any(name.endswith(kind) for name in measures)
    }


def minima(minimum: float | None) -> dict[str, float]:
    """The limits of the measures: the same for all if given, else :data:`MINIMA`."""
    return {kind: limit if minimum is None else minimum for kind, limit in MINIMA.items()}


def agrees(measures: Mapping[str, float], minimum: float | None) -> bool:
    """Whether a model agrees with the float file; without any object to compare, it does not."""
    limits = minima(minimum)
    if 'objects' in measures:
        unmatched = math.ceil((1 - limits['matched objects']) * measures['objects'])
        if measures['new objects'] > unmatched:
            return False
    return all(value >= limits[kind] for kind, value in worst(measures).items())


def choose(
    model: Path, trials: Sequence[Trial], minimum: float | None, *, allow_slower: bool
) -> Trial:
    """The fastest of the models that agree, after the most faithful one of each runtime is taken.

    Raises:
        UserError: If none agrees, or none is faster than the float file.
    """
    agreeing = [trial for trial in trials if agrees(trial.measures, minimum)]
    tried = '; '.join(map(str, trials))
    if trials[0].measures.get('objects') == 0:
        raise UserError(
            'the float file finds no object in the held-out images, so that nothing can be '
            'compared; lower --score-thr, or give other images'
        )
    if not agreeing:
        limits = minima(minimum)
        needed = ', '.join(f'{kind} {limits[kind]:g}' for kind in worst(trials[0].measures))
        raise DisagreementError(
            f'no int8 file of {model} agrees with it ({needed} needed; {tried}); give more images '
            'similar to those at inference, keep more layers in float with --exclude, or lower '
            '--min-agreement'
        )
    by_fidelity = sorted(agreeing, key=lambda trial: fidelity(trial.measures))
    faithful = {trial.suffix: trial for trial in by_fidelity}  # the last of each suffix
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
