"""Quantized models of every runtime, compared with the float file, and the choice among them."""

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from numpy.typing import NDArray

from mmeffvit.deploy.agreement import METRIC, DisagreementError, fidelity
from mmeffvit.deploy.predictor.sessions import Session, readable
from mmeffvit.errors import UserError
from mmeffvit.utils.machine import has_int8_dot_product
from mmeffvit.utils.messages import step
from mmeffvit.utils.text import counted, listed

from . import openvino
from .litert import LiteRTQuantizer
from .onnxruntime import OnnxQuantizer
from .openvino import OpenVINOQuantizer
from .route import Attempt, Route

Compare = Callable[[Attempt], tuple[dict[str, float], tuple[float, float]]]
R = TypeVar('R', bound=Route)

ROUNDS = 10  # of the timing
TICK = 0.02  # CPU seconds of a round at least: some kernels count in steps of 4 to 10 ms
ROUTES: dict[str, type[OnnxQuantizer | OpenVINOQuantizer | LiteRTQuantizer]] = {
    '.onnx': OnnxQuantizer,
    '.xml': OpenVINOQuantizer,
    '.tflite': LiteRTQuantizer,
}
# lowest agreement of a file that is written, by measure
MINIMA = {
    'matched objects': 0.9,
    'mean IoU of the masks': 0.8,
    'pixel agreement': 0.95,
    'signal-to-noise ratio, dB': 15.0,
}


@dataclass(frozen=True)
class Trial:
    """A quantized model and how well it agrees with the float file.

    Args:
        suffix: Suffix of the file.
        runtime: Name of its runtime.
        attempt: The model.
        measures: Its agreement.
        milliseconds: Median time per image on one thread, of the float file and of this model.
    """

    suffix: str
    runtime: str
    attempt: Attempt
    measures: dict[str, float]
    milliseconds: tuple[float, float]

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


def first_agreeing(
    suffixes: Sequence[str], made: Callable[[str], Iterator[Trial]], minimum: float | None
) -> list[Trial]:
    """The trials of every suffix up to the first that agrees.

    Raises:
        UserError: If the last suffix has none, and no other has one.
    """
    trials: list[Trial] = []
    for suffix in suffixes:
        try:
            for trial in made(suffix):
                trials.append(trial)
                step(str(trial))
                if agrees(trial.measures, minimum):
                    break
        except UserError as error:
            if suffix == suffixes[-1] and not trials:
                raise
            step(str(error))
    return trials


def finetuned_trials(
    suffixes: Sequence[str], model: Path, inputs: Sequence[NDArray], steps: int, compare: Compare
) -> list[Trial]:
    """Two models per suffix with all layers in int8: as calibrated, and then fine-tuned.

    Raises:
        UserError: As :func:`trials_of`, or if an operator cannot be trained.
    """
    quantizer = opened(OnnxQuantizer, model, inputs)

    def tried(suffix: str, constants: Mapping[str, NDArray], words: str) -> Trial:
        if suffix == '.onnx':
            attempt = quantizer.attempt_of(quantizer.with_constants(constants), trained=words)
        else:  # OpenVINO fuses a SiLU in float into the convolution before it
            graph = quantizer.with_constants(constants, silu=False)
            attempt = openvino.attempt_of(graph, len(quantizer.nodes), words)
        trial = Trial(suffix, ROUTES[suffix].runtime, attempt, *compare(attempt))
        step(str(trial))
        return trial

    calibrated = [tried(suffix, {}, '') for suffix in suffixes]
    constants = quantizer.finetuned(steps)
    words = f', fine-tuned for {counted(steps, "step")}'
    return calibrated + [tried(suffix, constants, words) for suffix in suffixes]


def trials_of(
    suffix: str,
    model: Path,
    inputs: Sequence[NDArray],
    exclude: Sequence[str],
    compare: Compare,
) -> Iterator[Trial]:
    """Models of a runtime, each made on first use.

    Args:
        suffix: Suffix of the file.
        model: The float file.
        inputs: Calibration images.
        exclude: As in :func:`quantize`.
        compare: Agreement and times of a model.

    Raises:
        UserError: If the file is invalid or has nothing to quantize, or a name is unknown.
    """
    route = opened(ROUTES[suffix], model, inputs)
    for attempt in attempts(route, exclude):
        yield Trial(suffix, route.runtime, attempt, *compare(attempt))


def opened(route: type[R], model: Path, inputs: Sequence[NDArray]) -> R:
    """A quantizer of a file.

    Raises:
        UserError: If the file is invalid or has nothing to quantize.
    """
    with readable(model):  # user errors of images pass through
        quantizer = route(model, inputs)
    if not quantizer.nodes:
        raise UserError(f'{model} has no convolution or matrix product with a weight to quantize')
    return quantizer


def attempts(route: Route, exclude: Sequence[str]) -> Iterator[Attempt]:
    """Models to try, given the layers that are to be kept in float.

    Raises:
        UserError: If a name is not that of a layer that can be quantized.
    """
    if list(exclude) == ['auto']:
        yield from route.attempts()
        return
    names = [] if list(exclude) == ['none'] else list(exclude)
    unknown = sorted(set(names) - set(route.nodes))
    if unknown:
        raise UserError(
            f'no node to quantize is called {", ".join(unknown)}; choose auto, none, or from '
            f'{", ".join(route.nodes)}'
        )
    yield route.attempt(names)


def worst(measures: Mapping[str, float]) -> dict[str, float]:
    """The lowest values of the measures that :data:`MINIMA` limits."""
    return {
        kind: min(value for name, value in measures.items() if name.endswith(kind))
        for kind in MINIMA
        if any(name.endswith(kind) for name in measures)
    }


def agrees(measures: Mapping[str, float], minimum: float | None) -> bool:
    """Whether a model agrees with the float file; without any object to compare, it does not."""
    limits = {kind: limit if minimum is None else minimum for kind, limit in MINIMA.items()}
    if 'objects' in measures:
        unmatched = math.ceil((1 - limits['matched objects']) * measures['objects'])
        if measures['new objects'] > unmatched:
            return False
    return all(value >= limits[kind] for kind, value in worst(measures).items())


def choose(
    model: Path, trials: Sequence[Trial], minimum: float | None, *, allow_slower: bool
) -> Trial:
    """The fastest of the models that agree, of which each runtime has its most faithful.

    Raises:
        UserError: If none does, or none is faster than the float file.
    """
    agreeing = [trial for trial in trials if agrees(trial.measures, minimum)]
    tried = '; '.join(map(str, trials))
    if trials[0].measures.get('objects') == 0:
        raise UserError(
            'the float file finds no object in the held-out images, so that nothing can be '
            'compared; lower --score-thr, or give other images'
        )
    if not agreeing:
        limits = {
            kind: MINIMA[kind] if minimum is None else minimum for kind in worst(trials[0].measures)
        }
        needed = ', '.join(f'{kind} {limit:g}' for kind, limit in limits.items())
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
            f'int8 is slower than float on this machine{cause} ({tried}); keep {model}, or give '
            '--allow-slower if the file is for another machine'
        )
    return best


def milliseconds(sessions: Sequence[Session], image: NDArray) -> tuple[float, ...]:
    """Median milliseconds of files for one image, interleaved.

    CPU time, so that other load on the machine does not count.
    """
    for each in sessions:  # the first run allocates
        each.run(image)
    rounds = [[cpu_seconds(each, image) for each in sessions] for _ in range(ROUNDS)]
    return tuple(1000 * statistics.median(each) for each in zip(*rounds, strict=True))


def cpu_seconds(session: Session, image: NDArray) -> float:
    """CPU seconds per run, over as many runs as the clock needs to resolve them."""
    runs, start, spent = 0, time.process_time(), 0.0
    while spent < TICK:
        session.run(image)
        runs, spent = runs + 1, time.process_time() - start
    return spent / runs
