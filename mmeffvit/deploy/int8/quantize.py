"""Quantize an ONNX file to int8, and compare it with the float file."""

import json
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from numpy.typing import NDArray

from mmeffvit.deploy.agreement import OBJECTS, DisagreementError, agreement
from mmeffvit.deploy.predictor.metadata import parse_metadata
from mmeffvit.deploy.predictor.resizing import check_size, reader_of
from mmeffvit.deploy.predictor.sessions import Session, open_model, readable
from mmeffvit.errors import UserError
from mmeffvit.inference.inputs import find_images
from mmeffvit.utils.boxes import post_process
from mmeffvit.utils.files import atomic_output, check_output
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

HELD_OUT = 32  # maximum number of images for the comparison
ROUNDS = 10  # of the timing
NOTE = 'quantization'  # key of the metadata
ROUTES: dict[str, type[OnnxQuantizer | OpenVINOQuantizer | LiteRTQuantizer]] = {
    '.onnx': OnnxQuantizer,
    '.xml': OpenVINOQuantizer,
    '.tflite': LiteRTQuantizer,
}
# which files can be made of a file
TARGETS = {'.onnx': ('.onnx', '.xml'), '.tflite': ('.tflite',)}
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
        shown = ', '.join(f'{name} {value:.4g}' for name, value in worst(self.measures).items())
        return f'{self.runtime}, {self.attempt.settings}{kept}: {shown}, {self.speed:.2f} x float'


@dataclass(frozen=True)
class Quantization:
    """Result of a quantization.

    Args:
        out: The file that was written.
        calibrated: Number of calibration images.
        held_out: Number of other images, used for the comparison.
        chosen: The model that was written.
        trials: All that were tried, in order.
        sizes: Bytes of the float file and of the int8 file, with its weights.
    """

    out: Path
    calibrated: int
    held_out: int
    chosen: Trial
    trials: tuple[Trial, ...]
    sizes: tuple[int, int]

    def __str__(self) -> str:
        attempt = self.chosen.attempt
        old, new = self.chosen.milliseconds
        rows = [
            ('calibrated on', counted(self.calibrated, 'image')),
            ('compared on', f'{counted(self.held_out, "image")} held out'),
            ('int8 layers', f'{attempt.quantized}, {len(attempt.excluded)} kept in float'),
            *((name, f'{value:.4g}') for name, value in self.chosen.measures.items()),
            ('size', f'{self.sizes[0] / 1e6:.1f} -> {self.sizes[1] / 1e6:.1f} MB'),
            ('time, one thread', f'{old:.1f} -> {new:.1f} ms (x {self.chosen.speed:.2f})'),
            ('written', f'{self.out}, for {self.chosen.runtime}'),
        ]
        width = max(len(name) for name, _ in rows)
        return '\n'.join(f'{name:<{width}}  {value}' for name, value in rows)


def quantize(
    model: str | os.PathLike,
    folder: str | os.PathLike | Sequence[Path],
    out: str | os.PathLike,
    *,
    samples: int = 64,
    exclude: Sequence[str] = ('auto',),
    score_thr: float = 0.3,
    size: tuple[int, int] | None = None,
    min_agreement: float | None = None,
    allow_slower: bool = False,
    finetune: int = 0,
) -> Quantization:
    """Quantize an ONNX file to int8, and write it if it agrees with the float file and is faster.

    Args:
        model: An ONNX or LiteRT file of the export.
        folder: Images for calibration and for the comparison: a folder, or their paths.
        out: The file, written atomically. Of an ONNX file: ``.onnx`` for ONNX Runtime, ``.xml``
            for OpenVINO, or without a suffix the faster of the two; of a LiteRT file: ``.tflite``.
        samples: Maximum number of calibration images; a third of the folder is always held out.
        exclude: 'auto' keeps the most sensitive layers in float where that is needed to agree,
            'none' keeps none; otherwise names of layers to keep in float.
        score_thr: Objects of the float file with a lower score are not compared.
        size: Height and width of the images; by default that of the file.
        min_agreement: Lowest agreement, by default that of :data:`MINIMA`: the fraction of matched
            objects or of equal pixels, or decibels of each map.
        allow_slower: Write the file although it is slower here than the float file.
        finetune: Steps of quantization-aware fine-tuning on the calibration images, with the float
            file as teacher and all layers in int8; only of ONNX files.

    Raises:
        UserError: If an argument or the file is invalid, there are too few images, no layer can be
            quantized, a name is unknown, or no int8 file agrees and is faster.
    """
    model = Path(model)
    if not 0 <= score_thr <= 1:
        raise UserError(f'--score-thr is {score_thr}; give a score from 0 to 1')
    check_size(size, '--shape')
    check_finetune(finetune, model, exclude)
    out, suffixes = targets(model, Path(out))
    reference = open_model(model)
    paths = find_images(folder) if isinstance(folder, str | os.PathLike) else list(folder)
    calibration, held_out = divide(paths, samples)
    read = reader_of(reference.shape, reference.metadata, size)
    images = [read(path) for path in held_out]
    finish = partial(with_objects, metadata=reference.metadata)
    expected = [finish(reference.run(image), score_thr=score_thr) for image in images]
    inputs = [read(path) for path in calibration]
    single = open_model(model, threads=1)

    def compare(attempt: Attempt) -> tuple[dict[str, float], tuple[float, float]]:
        session = attempt.open(0)
        # an object whose score only drops below the threshold is not lost
        found = [finish(session.run(image), score_thr=score_thr / 2) for image in images]
        times = milliseconds([single, attempt.open(1)], images[0])
        return agreement(expected, found, score_thr), times

    if finetune:
        trials = finetuned_trials(suffixes, model, inputs, finetune, compare)
    else:
        trials = first_agreeing(
            suffixes,
            lambda suffix: trials_of(suffix, model, inputs, exclude, compare),
            min_agreement,
        )
    chosen = choose(model, trials, min_agreement, allow_slower=allow_slower)
    target = out.with_suffix(chosen.suffix)
    note = note_of(chosen, trials, len(inputs), len(images))
    with atomic_output(target) as path:
        chosen.attempt.save(path, {**reference.metadata, NOTE: json.dumps(note)})
        size_of_files = sum(item.stat().st_size for item in path.parent.iterdir())
    sizes = (model.stat().st_size, size_of_files)
    return Quantization(target, len(inputs), len(images), chosen, tuple(trials), sizes)


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
    """One model that was fine-tuned, as a file of every suffix.

    Raises:
        UserError: As :func:`trials_of`, or if an operator cannot be trained.
    """
    quantizer = opened(OnnxQuantizer, model, inputs)
    attempt = quantizer.attempt(())
    step(str(Trial('.onnx', quantizer.runtime, attempt, *compare(attempt))))
    constants = quantizer.finetuned(steps)
    words = f', fine-tuned for {counted(steps, "step")}'
    trials = []
    for suffix in suffixes:
        if suffix == '.onnx':
            attempt = quantizer.attempt_of(quantizer.with_constants(constants), trained=words)
        else:  # OpenVINO fuses a SiLU in float into the convolution before it
            model = quantizer.with_constants(constants, silu=False)
            attempt = openvino.attempt_of(model, len(quantizer.nodes), words)
        trials.append(Trial(suffix, ROUTES[suffix].runtime, attempt, *compare(attempt)))
        step(str(trials[-1]))
    return trials


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


def check_finetune(steps: int, model: Path, exclude: Sequence[str]) -> None:
    """Check the options of fine-tuning.

    Raises:
        UserError: If the number of steps is negative, or the file or other options do not fit.
    """
    if steps < 0:
        raise UserError(f'--finetune is {steps}; give the number of steps, such as 300')
    if steps and model.suffix != '.onnx':
        raise UserError(f'--finetune trains .onnx files, not {str(model)!r}')
    if steps and list(exclude) not in (['auto'], ['none']):
        raise UserError(
            f'--exclude {" ".join(exclude)} keeps layers in float, --finetune none; give one'
        )


def targets(model: Path, out: Path) -> tuple[Path, tuple[str, ...]]:
    """The checked output, and the suffixes of the files to choose from.

    Raises:
        UserError: If the model is not one to quantize, or the output cannot be written.
    """
    if model.suffix not in TARGETS:
        raise UserError(f'{str(model)!r} must end in {" or ".join(TARGETS)}')
    choices = TARGETS[model.suffix]
    out = check_output(out, *choices, *(('',) if len(choices) > 1 else ()))
    suffixes = (out.suffix,) if out.suffix else choices
    for suffix in suffixes:
        path = check_output(out.with_suffix(suffix))
        if path.exists() and model.exists() and path.samefile(model):
            raise UserError(f'{str(path)!r} is the float file itself: choose another name')
    return out, suffixes


def with_objects(
    outputs: Mapping[str, NDArray], metadata: Mapping[str, str], score_thr: float
) -> Mapping[str, NDArray]:
    """Outputs of a detector after NMS, if its file has none; others are returned unchanged."""
    if set(outputs) != {'boxes', 'scores'}:
        return outputs
    iou_threshold = parse_metadata(metadata).iou_threshold
    found = post_process(outputs['boxes'][0], outputs['scores'][0], score_thr, iou_threshold)
    return {name: value[None] for name, value in zip(OBJECTS, found, strict=True)}


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
    """The fastest model that agrees.

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
    best = max(agreeing, key=lambda trial: trial.speed)
    if best.speed < 1 and not allow_slower:
        cause = '' if has_int8_dot_product() else ', whose CPU has no int8 dot product'
        raise UserError(
            f'int8 is slower than float on this machine{cause} ({tried}); keep {model}, or give '
            '--allow-slower if the file is for another machine'
        )
    return best


def note_of(
    chosen: Trial, trials: Sequence[Trial], calibrated: int, held_out: int
) -> dict[str, object]:
    """The report for the file's metadata."""
    return dict(
        calibrated=calibrated,
        held_out=held_out,
        runtime=chosen.runtime,
        settings=chosen.attempt.settings,
        excluded=sorted(chosen.attempt.excluded),
        agreement={name: _number(value) for name, value in chosen.measures.items()},
        tried=[str(trial) for trial in trials],
    )


def _number(value: float) -> float | None:
    return round(value, 6) if math.isfinite(value) else None  # JSON has no NaN


def divide(paths: Sequence[Path], samples: int) -> tuple[list[Path], list[Path]]:
    """Evenly spaced images for calibration, and others for the comparison.

    Raises:
        UserError: If there are fewer than two, or ``samples`` is less than 1.
    """
    if samples < 1:
        raise UserError(f'--max-images is {samples}; give 1 or more')
    if len(paths) < 2:
        raise UserError(
            f'{paths[0].parent} has one image; at least two are needed, since one is held out'
        )
    count = min(samples, max(1, len(paths) * 2 // 3))
    chosen = {len(paths) * index // count for index in range(count)}
    calibration = [path for index, path in enumerate(paths) if index in chosen]
    rest = [path for index, path in enumerate(paths) if index not in chosen]
    return calibration, rest[:HELD_OUT]


def milliseconds(sessions: Sequence[Session], image: NDArray) -> tuple[float, ...]:
    """Median milliseconds of files for one image, interleaved.

    CPU time, so that other load on the machine does not count.
    """
    seconds: list[list[float]] = [[] for _ in sessions]
    for _ in range(ROUNDS + 1):
        for index, each in enumerate(sessions):
            start = time.process_time()
            each.run(image)
            seconds[index].append(time.process_time() - start)
    # the first round allocates
    return tuple(1000 * statistics.median(each[1:]) for each in seconds)
