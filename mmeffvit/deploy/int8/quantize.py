"""Quantize an ONNX or LiteRT file to int8, and compare it with the float file."""

import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from mmeffvit.data.files import find_images
from mmeffvit.deploy.agreement import Measure, Outputs, agreement
from mmeffvit.deploy.formats.base import Format
from mmeffvit.deploy.formats.table import BY_SUFFIX, open_model
from mmeffvit.deploy.runtime.last_steps import last_steps
from mmeffvit.deploy.runtime.metadata import parse_metadata
from mmeffvit.deploy.runtime.resizing import check_size, reader_of
from mmeffvit.deploy.runtime.sessions import Session, readable
from mmeffvit.errors import UserError
from mmeffvit.utils.files import atomic_output, check_companions, check_output
from mmeffvit.utils.messages import step
from mmeffvit.utils.optional import require
from mmeffvit.utils.text import align, counted

from .trials import Attempt, Trial, choose, milliseconds

HELD_OUT = 32  # maximum number of images for the comparison
NOTE = 'quantization'  # key of the metadata
Compare = Callable[[Attempt], tuple[list[Measure], tuple[float, float]]]


@dataclass(frozen=True)
class Quantization:
    """Result of a quantization."""

    out: Path
    calibrated: int  # number of calibration images
    held_out: int  # number of other images, used for the comparison
    chosen: Trial  # the model that was written
    trials: tuple[Trial, ...]  # in order
    sizes: tuple[int, int]  # bytes of the float file and of the int8 file, with its weights

    def __str__(self) -> str:
        attempt = self.chosen.attempt
        old, new = self.chosen.milliseconds
        rows = [
            ('calibrated on', counted(self.calibrated, 'image')),
            ('compared on', f'{counted(self.held_out, "image")} held out'),
            ('int8 layers', f'{attempt.quantized}, {len(attempt.excluded)} kept in float'),
            *((each.name, each.shown) for each in self.chosen.measures),
            ('size', f'{self.sizes[0] / 1e6:.1f} -> {self.sizes[1] / 1e6:.1f} MB'),
            ('time, one thread', f'{old:.1f} -> {new:.1f} ms (x {self.chosen.speed:.2f})'),
            ('written', f'{self.out}, for {self.chosen.kind.runtime}'),
        ]
        return '\n'.join(align(rows, numbers=False))


@dataclass(frozen=True)
class Images(Sequence[NDArray]):
    """Images that are read when they are used, since hundreds of them take gigabytes."""

    paths: Sequence[Path]
    read: Callable[[Path], NDArray]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return Images(self.paths[index], self.read)
        return self.read(self.paths[index])


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
) -> Quantization:
    """Quantize an ONNX or LiteRT file to int8, and write it if it agrees and is faster.

    Args:
        model: An ONNX or LiteRT file of the export.
        folder: Images for calibration and for the comparison: a folder, or their paths.
        out: The file, written atomically. From an ONNX file: ``.onnx`` for ONNX Runtime, ``.xml``
            for OpenVINO, or without a suffix the faster of the two; from LiteRT: ``.tflite``.
        samples: Maximum number of calibration images; a third of the folder is always held out.
        exclude: 'auto' keeps the most sensitive layers in float where that is needed to agree,
            'none' keeps none; otherwise names of layers to keep in float.
        score_thr: Objects of the float file with a lower score are not compared.
        size: Height and width of the images; by default the file's.
        min_agreement: Minimum agreement, by default from
            :data:`mmeffvit.deploy.agreement.MINIMA`: the fraction of matched objects or of equal
            pixels, or decibels of each map.
        allow_slower: Write the file although it is slower here than the float file.

    Raises:
        UserError: If an argument or the file is invalid, there are too few images, no layer can be
            quantized, a name is unknown, or no int8 file agrees and is faster.
    """
    model = Path(model)
    if not 0 <= score_thr <= 1:
        raise UserError(f'--score-thr is {score_thr}; give a score from 0 to 1')
    if min_agreement is not None and not 0 <= min_agreement < math.inf:
        raise UserError(f'--min-agreement is {min_agreement}; give a fraction, or decibels')
    check_size(size, '--shape')
    out, kinds = targets(model, Path(out))
    reference = open_model(model)
    if isinstance(reference.shape[0], int) and reference.shape[0] != 1:
        raise UserError(f'{model} takes batches of {reference.shape[0]} images: export it with '
                        '--batch 1 or without --batch')  # fmt: skip
    paths = find_images(folder) if isinstance(folder, str | os.PathLike) else list(folder)
    calibration, held_out = divide(paths, samples)
    read = reader_of(reference.shape, reference.metadata, size)
    images, inputs = Images(held_out, read), Images(calibration, read)
    metadata = parse_metadata(reference.metadata)

    def run(session: Session, score_thr: float) -> list[Outputs]:
        known = replace(metadata, score_threshold=score_thr)
        return [last_steps(session.run(each), known, each.shape[2:]) for each in images]

    # a float object just below the threshold may be one just above it in int8
    expected = run(reference, score_thr / 2)
    if min_agreement is not None and min_agreement > 1 and {'boxes', 'label_map'} & {*expected[0]}:
        raise UserError(f'--min-agreement is {min_agreement}; give a fraction, such as 0.9')
    scores = [each['scores'] for each in expected if 'boxes' in each]
    if scores and not any(((each > 0) & (each >= score_thr)).any() for each in scores):
        raise UserError(
            'the float file finds no object in the held-out images, so that nothing can be '
            'compared; lower --score-thr, or give other images'
        )
    given = reference.metadata
    del reference  # its memory

    def compare(attempt: Attempt) -> tuple[list[Measure], tuple[float, float]]:
        # an object whose score only drops below the threshold is not lost
        found = run(attempt.open(0), score_thr / 2)
        times = milliseconds([open_model(model, threads=1), attempt.open(1)], images[0])
        measures = agreement(expected, found, score_thr, min_agreement, metadata.mask_threshold)
        return measures, times

    trials = first_agreeing(kinds, model, inputs, exclude, compare)
    chosen = choose(model, trials, allow_slower=allow_slower)
    target = out.with_suffix(chosen.kind.suffix)
    note = note_of(chosen, trials, len(inputs), len(images))
    with atomic_output(target) as path:
        chosen.attempt.save(path, {**given, NOTE: json.dumps(note)})
        size_of_files = sum(item.stat().st_size for item in path.parent.iterdir())
    sizes = (model.stat().st_size, size_of_files)
    return Quantization(target, len(inputs), len(images), chosen, tuple(trials), sizes)


def targets(model: Path, out: Path) -> tuple[Path, list[Format]]:
    """The checked output, and the formats to choose from."""
    can_be = [kind for kind in BY_SUFFIX.values() if kind.int8_source]
    kinds = [kind for kind in can_be if kind.int8_source == model.suffix]
    if not kinds:
        sources = dict.fromkeys(kind.int8_source for kind in can_be)
        raise UserError(
            f'{str(model)!r} must end in {" or ".join(sources)}: write one with `mmeffvit export`'
        )
    choices = [kind.suffix for kind in kinds]
    out = check_output(out, *choices, *(('',) if len(choices) > 1 else ()))
    kinds = [kind for kind in kinds if out.suffix in ('', kind.suffix)]
    for kind in kinds:
        path = check_output(out.with_suffix(kind.suffix))
        if path.exists() and model.exists() and path.samefile(model):
            raise UserError(f'{str(path)!r} is the float file itself: choose another name')
        check_companions(path, kind.companions)
    return out, kinds


def first_agreeing(
    kinds: Sequence[Format],
    model: Path,
    inputs: Sequence[NDArray],
    exclude: Sequence[str],
    compare: Compare,
) -> list[Trial]:
    """The trials of every format up to its first that agrees."""
    trials: list[Trial] = []
    for kind in kinds:
        try:
            for attempt in attempts(open_quantizer(kind, model, inputs), exclude):
                trials.append(Trial(kind, attempt, *compare(attempt)))
                step(str(trials[-1]))
                if trials[-1].agrees:
                    break
        except UserError as error:
            if kind is kinds[-1] and not trials:
                raise
            step(str(error))
    return trials


def open_quantizer(kind: Format, model: Path, inputs: Sequence[NDArray]) -> Any:
    """A quantizer of a file, calibrated on ``inputs``."""
    for package in kind.int8_packages:
        require(package, f'An int8 {kind.suffix}')
    with readable(model):  # user errors of images pass through
        quantizer = kind.quantizer(model, inputs)
    if not quantizer.nodes:
        raise UserError(f'{model} has no convolution or matrix product with a weight to quantize')
    return quantizer


def attempts(quantizer: Any, exclude: Sequence[str]) -> Iterator[Attempt]:
    """Models to try, each made on first use; UserError if a name belongs to no layer."""
    if list(exclude) == ['auto']:
        yield from quantizer.attempts()
        return
    names = [] if list(exclude) == ['none'] else list(exclude)
    unknown = sorted(set(names) - set(quantizer.nodes))
    if unknown:
        raise UserError(
            f'no node to quantize is called {", ".join(unknown)}; choose auto, none, or from '
            f'{", ".join(quantizer.nodes)}'
        )
    yield quantizer.attempt(names)


def note_of(
    chosen: Trial, trials: Sequence[Trial], calibrated: int, held_out: int
) -> dict[str, object]:
    """The report for the file's metadata."""
    return dict(
        calibrated=calibrated,
        held_out=held_out,
        runtime=chosen.kind.runtime,
        settings=chosen.attempt.settings,
        excluded=sorted(chosen.attempt.excluded),
        agreement={  # JSON has no NaN
            each.name: round(each.value, 6) if math.isfinite(each.value) else None
            for each in chosen.measures
        },
        tried=[str(trial) for trial in trials],
    )


def divide(paths: Sequence[Path], samples: int) -> tuple[list[Path], list[Path]]:
    """Evenly spaced images to calibrate, at most ``samples``, and of the others to compare on."""
    if samples < 1:
        raise UserError(f'--max-images is {samples}; give 1 or more')
    if len(paths) < 2:
        given = f'{paths[0].parent} has one image' if paths else 'no images are given'
        raise UserError(f'{given}; at least two are needed, since one is held out')
    count = min(samples, max(1, len(paths) * 2 // 3))
    chosen = set(spaced(len(paths), count))
    rest = [path for index, path in enumerate(paths) if index not in chosen]
    held_out = spaced(len(rest), min(HELD_OUT, len(rest)))
    return [paths[index] for index in sorted(chosen)], [rest[index] for index in held_out]


def spaced(number: int, count: int) -> list[int]:
    """Evenly spaced indices: ``count`` of ``number``."""
    return [number * index // count for index in range(count)]
