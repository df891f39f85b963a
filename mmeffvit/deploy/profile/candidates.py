"""The files to measure for a model or an exported file, if they agree with it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mmeffvit.deploy.agreement import DisagreementError, Measure, worst
from mmeffvit.deploy.compare import (
    FLOAT,
    HALF,
    Expect,
    Images,
    Limits,
    Outputs,
    Run,
    Steps,
    batch,
    check_agreement,
    compare,
    expect_same,
)
from mmeffvit.deploy.export import Source, ToolOptions
from mmeffvit.deploy.formats.onnx.write import ExportOptions
from mmeffvit.deploy.formats.openvino.write import to_openvino
from mmeffvit.deploy.formats.table import BY_SUFFIX, OPENED, open_model
from mmeffvit.deploy.graphs.base import Graph
from mmeffvit.deploy.int8.quantize import NOTE, quantize
from mmeffvit.deploy.runtime.resizing import fixed_size, reader_of
from mmeffvit.deploy.write import finish, noise_image
from mmeffvit.errors import UserError
from mmeffvit.utils.optional import require
from mmeffvit.utils.text import reason

STORED = (
    'the weights are stored as float16, in half the space, but computed in float32 on this CPU: '
    'as fast as float32'
)
OTHERS = 'an exported file is not converted for it: give the config and the checkpoint'


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


def attempt(
    runtime: str, precision: str, make: Callable[[], Entry], packages: Sequence[str] = ()
) -> Entry:
    """What ``make`` returns if the packages are installed, or why there is no candidate."""
    absent = partial(Absent, runtime, precision)
    try:
        for package in packages:
            require(package, f'{runtime} {precision}')
    except UserError as error:
        return absent('not installed', str(error))
    try:
        return make()
    except DisagreementError as error:
        return absent('rejected', str(error))
    except UserError as error:
        return absent('not possible', str(error))
    except Exception as error:  # of converters, which have no class in common
        return absent('not possible', reason(error))


def float_files(
    source: Source, options: ExportOptions, folder: Path, suffix: str
) -> Iterator[Entry]:
    """Files of a model in float32 and, if the format has it, in float16, each in its folder."""
    kind = BY_SUFFIX[suffix]
    for precision in ('float32', 'float16') if kind.has_half else ('float32',):
        make = partial(float_file, source, options, folder, suffix, precision)
        yield attempt(kind.runtime, precision, make, kind.packages)


def float_file(
    source: Source, options: ExportOptions, folder: Path, suffix: str, precision: str
) -> Entry:
    half = precision == 'float16'
    out = folder / f'{suffix[1:]}_{precision}' / f'model{suffix}'
    written = source.write(out, options, half=half)
    steps = None
    if written.exported is not source.graph:
        size = tuple(written.batches[0].shape[2:])
        steps = partial(finish, source.graph, written.exported, size=size)
    if half:
        return half_file(out, source.expect, written.batches, steps)
    found = described(written.errors)
    return Candidate(BY_SUFFIX[suffix].runtime, precision, out, *found, steps)


def half_file(
    path: Path, expect: Expect, batches: Sequence[Images], steps: Steps | None = None
) -> Entry:
    """A file with float16 weights, if the runtime computes in float16 on this CPU.

    Raises:
        DisagreementError: If it does, and the outputs differ from the model's.
    """
    runtime = BY_SUFFIX[path.suffix].runtime
    single, half = (open_model(path, half=each).run for each in (False, True))
    if all(equal(single(images), half(images)) for images in batches):
        return Absent(runtime, 'float16', 'stored only', STORED)
    run = (lambda images: steps(half(images))) if steps else half
    found = checked(run, expect, batches, HALF)
    return Candidate(runtime, 'float16', path, *found, steps)


def equal(one: Outputs, other: Outputs) -> bool:
    return all(np.array_equal(one[name], other[name]) for name in one)


def checked(
    run: Run, expect: Expect, batches: Sequence[Images], limits: Limits
) -> tuple[dict[str, float], str]:
    """The agreement of a file with the model, see :func:`described`.

    Raises:
        DisagreementError: If an error exceeds its limit.
    """
    errors = compare(run, expect, batches, limits)
    check_agreement(errors, 'the same images')
    return described(errors)


def described(errors: Sequence[Measure]) -> tuple[dict[str, float], str]:
    """Errors by name, and the one that is closest to its limit."""
    largest = min(errors, key=lambda error: error.margin)
    return {error.name: error.value for error in errors}, str(largest)


def int8_file(
    suffix: str, floats: Mapping[str, Candidate], images: Path | None, folder: Path, **options: Any
) -> Entry:
    """The int8 file of a format, made from one of ``floats``, which agree with the model.

    It is calibrated and compared on a folder of ``images``; for ``options`` see
    :func:`mmeffvit.deploy.int8.quantize.quantize`.
    """
    kind = BY_SUFFIX[suffix]
    base, runtime = kind.int8_source, kind.runtime
    absent = partial(Absent, runtime, 'int8', 'not measured')
    if images is None:
        return absent('it is calibrated on images: give --images FOLDER')

    def make() -> Entry:
        if base not in floats:
            return absent(f'it is made from a {base} in float32 that agrees, and there is none')
        file, out = floats[base], folder / f'{suffix[1:]}_int8' / f'model{suffix}'
        done = quantize(file.path, images, out, allow_slower=True, **options)
        lowest = ', '.join(f'{each.kind} {each.value:.3g}' for each in worst(done.chosen.measures))
        measures = {each.name: each.value for each in done.chosen.measures}
        agreement = f'{lowest}, compared with float32'
        return Candidate(runtime, 'int8', done.out, measures, agreement, file.last_steps)

    return attempt(runtime, 'int8', make, kind.int8_packages)


def check_exported(path: Path, options: ToolOptions) -> tuple[Images, bool]:
    """One batch of the image to compare on, or of noise, and whether a file is quantized already.

    Raises:
        UserError: If it cannot be read or run, or has no fixed size and none is given.
    """
    if path.suffix not in OPENED:
        raise UserError(f'{path} ends in {path.suffix!r}; choose from {", ".join(OPENED)}')
    session = open_model(path)
    count, fixed = session.shape[0], fixed_size(session.shape)
    if options.shape and fixed and options.shape != fixed:
        raise UserError(f'--shape is {options.shape}, but the file takes images of {fixed}')
    shape = options.shape or fixed
    if shape is None:
        raise UserError('the size of the images is not in the file; give --shape HEIGHT WIDTH')
    if options.image is None:
        image = noise_image(shape)
    else:
        read = reader_of((1, 3, *shape), session.metadata)
        image = read(options.image)[0].transpose(1, 2, 0)
    images = batch(image, shape, count if isinstance(count, int) else 1)
    session.run(images)
    return images, NOTE in session.metadata


def exported_files(
    path: Path, images: Images, is_int8: bool, folder: Path, suffix: str
) -> Iterator[Entry]:
    """The file itself, or the OpenVINO files of a float ``.onnx``."""
    runtime = BY_SUFFIX[suffix].runtime
    if suffix == path.suffix:
        yield Candidate(runtime, 'int8' if is_int8 else 'float32', path, {}, 'the file itself')
    elif suffix == '.xml' and path.suffix == '.onnx' and not is_int8:
        for precision in ('float32', 'float16'):
            make = partial(openvino_file, path, images, folder, precision)
            yield attempt(runtime, precision, make, ('openvino',))
    else:
        yield Absent(runtime, 'float32', 'not measured', OTHERS)


def openvino_file(path: Path, images: Images, folder: Path, precision: str) -> Entry:
    out = folder / f'xml_{precision}' / 'model.xml'
    out.parent.mkdir(parents=True)
    to_openvino(path, out, half=precision == 'float16')
    expect = partial(expect_same, open_model(path).run)
    if precision == 'float16':
        return half_file(out, expect, [images])
    found = checked(open_model(out).run, expect, [images], FLOAT)
    return Candidate(BY_SUFFIX[out.suffix].runtime, precision, out, *found)
