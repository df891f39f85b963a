"""The files of a model to measure, for every runtime and precision, if they agree with it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mmeffvit.deploy.agreement import DisagreementError
from mmeffvit.deploy.compare import HALF, Error, Expect, Images, Outputs, check_agreement, compare
from mmeffvit.deploy.export import Source
from mmeffvit.deploy.formats import FORMATS, finish, write
from mmeffvit.deploy.graphs.base import Graph
from mmeffvit.deploy.int8.quantize import quantize
from mmeffvit.deploy.int8.trials import worst
from mmeffvit.deploy.onnx.export import ExportOptions
from mmeffvit.deploy.predictor.sessions import RUNTIMES, open_model
from mmeffvit.errors import UserError
from mmeffvit.utils.optional import require
from mmeffvit.utils.text import reason

from .rounds import Steps

INT8 = {  # by suffix: the float file, and what quantizing it needs
    '.onnx': ('.onnx', ('onnx', 'onnxruntime')),
    '.xml': ('.onnx', ('openvino', 'nncf')),
    '.tflite': ('.tflite', ('ai_edge_litert', 'ai_edge_quantizer')),
}
STORED = (
    'the weights are stored as float16, in half the space, but computed in float32 on this CPU: '
    'as fast as float32'
)


@dataclass(frozen=True)
class Candidate:
    """A file, or a model in PyTorch, that agrees with the model.

    Args:
        runtime: Name of its runtime.
        precision: 'float32', 'float16' or 'int8'.
        path: The file; None for a model in PyTorch.
        measures: Its agreement.
        agreement: The same in words, with the limit.
        last_steps: What remains for the application, see :func:`.rounds.time_in_rounds`.
        device: 'cpu', or the GPU that runs it.
        graph: The model in PyTorch, without a file.
    """

    runtime: str
    precision: str
    path: Path | None
    measures: Mapping[str, float]
    agreement: str
    last_steps: Steps | None = None
    device: str = 'cpu'
    graph: Graph | None = None

    @property
    def file(self) -> Path:
        """The path.

        Raises:
            UserError: If it is a model in PyTorch.
        """
        if self.path is None:
            raise UserError(f'{self.runtime} {self.precision} is not an exported file')
        return self.path

    @property
    def half(self) -> bool:
        return self.precision == 'float16'


@dataclass(frozen=True)
class Absent:
    """A format that is not measured and never chosen.

    Args:
        runtime: Name of the runtime.
        precision: 'float32', 'float16' or 'int8'.
        state: 'rejected' if it disagrees with the model, 'not installed', 'not possible', 'stored
            only' or 'not measured'.
        reason: Why.
    """

    runtime: str
    precision: str
    state: str
    reason: str

    def __str__(self) -> str:
        return f'{self.runtime} {self.precision}: {self.state}: {self.reason}'


Entry = Candidate | Absent


def attempt(runtime: str, precision: str, make: Callable[[str], Entry]) -> Entry:
    """The candidate that ``make`` returns for a runtime, or why there is none."""
    absent = partial(Absent, runtime, precision)
    try:
        return make(runtime)
    except DisagreementError as error:
        return absent('rejected', str(error))
    except UserError as error:
        return absent('not possible', str(error))
    except Exception as error:  # of converters, which have no class in common
        return absent('not possible', reason(error))


def missing(packages: Sequence[str], suffix: str, precision: str) -> Absent | None:
    """The format as 'not installed' if a package is missing, else None."""
    runtime, _ = RUNTIMES[suffix]
    for package in packages:
        try:
            require(package, f'{runtime} {precision}')
        except UserError as error:
            return Absent(runtime, precision, 'not installed', str(error))
    return None


def float_files(
    source: Source, options: ExportOptions, folder: Path, suffix: str
) -> Iterator[Entry]:
    """Files of a model in float32 and, if the format has it, in float16, each in its folder."""
    kind, (runtime, _) = FORMATS[suffix], RUNTIMES[suffix]
    for precision in ('float32', 'float16') if kind.half else ('float32',):
        yield missing(kind.packages, suffix, precision) or attempt(
            runtime, precision, partial(float_file, source, options, folder, suffix, precision)
        )


def float_file(
    source: Source, options: ExportOptions, folder: Path, suffix: str, precision: str, runtime: str
) -> Entry:
    half = precision == 'float16'
    written = write(
        source.graph,
        folder / f'{suffix[1:]}_{precision}' / f'model{suffix}',
        options,
        source.metadata,
        half=half,
        expect=source.expect,
        image=source.image,
    )
    names, size = written.exported.output_names, tuple(written.batches[0].shape[2:])

    def finished(found: Outputs) -> Outputs:
        named = dict(zip(names, found.values(), strict=True)) if suffix == '.pte' else found
        return finish(source.graph, written.exported, named, size)

    steps = None if written.exported is source.graph else finished
    if half:
        return half_file(runtime, written.path, source.expect, written.batches, finished, steps)
    return Candidate(runtime, precision, written.path, *described(written.errors), steps)


def half_file(
    runtime: str,
    path: Path,
    expect: Expect,
    batches: Sequence[Images],
    finished: Callable[[Outputs], Outputs],
    steps: Steps | None = None,
) -> Entry:
    """A file with float16 weights, if the runtime computes in float16 on this CPU.

    Raises:
        DisagreementError: If it does, and the outputs differ from the model's.
    """
    single, half = (open_model(path, half=each).run for each in (False, True))
    if all(equal(single(images), half(images)) for images in batches):
        return Absent(runtime, 'float16', 'stored only', STORED)
    errors = compare(lambda images: finished(half(images)), expect, batches, HALF)
    check_agreement(errors, 'the same images, computed in float16')
    return Candidate(runtime, 'float16', path, *described(errors), steps)


def equal(one: Outputs, other: Outputs) -> bool:
    return all(np.array_equal(one[name], other[name]) for name in one)


def described(errors: Sequence[Error]) -> tuple[dict[str, float], str]:
    """Errors by name, and the one that is closest to its limit."""
    largest = max(errors, key=lambda error: error.value / max(error.limit, 1e-12))
    return {error.name: error.value for error in errors}, str(largest)


def int8_files(
    suffix: str, floats: Mapping[str, Candidate], images: Path | None, folder: Path, **options: Any
) -> Iterator[Entry]:
    """The file in int8.

    Args:
        suffix: The format, one of :data:`INT8`.
        floats: Files in float32 that agree with the model, by suffix.
        images: Folder of images for calibration and comparison; None skips int8.
        folder: Where the file is written.
        options: See :func:`mmeffvit.deploy.int8.quantize.quantize`.
    """
    (base, packages), (runtime, _) = INT8[suffix], RUNTIMES[suffix]
    absent = partial(Absent, runtime, 'int8', 'not measured')
    if images is None:
        yield absent('it is calibrated on images: give --images FOLDER')
    elif lacking := missing(packages, suffix, 'int8'):
        yield lacking
    elif base not in floats:
        yield absent(f'it is made from a {base} in float32 that agrees, and there is none')
    else:
        make = partial(int8_file, floats[base], images, folder / f'{suffix[1:]}_int8', suffix)
        yield attempt(runtime, 'int8', partial(make, options))


def int8_file(
    base: Candidate,
    images: Path,
    folder: Path,
    suffix: str,
    options: Mapping[str, Any],
    runtime: str,
) -> Candidate:
    done = quantize(base.file, images, folder / f'model{suffix}', allow_slower=True, **options)
    measures = done.chosen.measures
    lowest = ', '.join(f'{name} {value:.3g}' for name, value in worst(measures).items())
    agreement = f'{lowest}, compared with float32'
    return Candidate(runtime, 'int8', done.out, measures, agreement, base.last_steps)
