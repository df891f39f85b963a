"""The files to measure for a model or an exported file, if they agree with it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mmeffvit.deploy import compare
from mmeffvit.deploy.agreement import DisagreementError, Measure, worst
from mmeffvit.deploy.compare import Expect, Images, Run, Steps
from mmeffvit.deploy.export import Exportable, ToolOptions
from mmeffvit.deploy.formats.onnx.write import ExportOptions
from mmeffvit.deploy.formats.openvino.write import to_openvino
from mmeffvit.deploy.formats.table import BY_SUFFIX, open_model
from mmeffvit.deploy.graphs.base import Graph
from mmeffvit.deploy.int8.quantize import NOTE, quantize
from mmeffvit.deploy.runtime.last_steps import last_steps
from mmeffvit.deploy.runtime.metadata import parse_metadata
from mmeffvit.deploy.runtime.resizing import fixed_size, reader_of
from mmeffvit.deploy.write import finish, noise_image
from mmeffvit.errors import UserError
from mmeffvit.utils.messages import step
from mmeffvit.utils.optional import require
from mmeffvit.utils.text import reason

from .worker import Job

STORED = (
    'the weights are stored as float16, in half the space, but computed in float32 on this CPU: '
    'as fast as float32'
)
OTHERS = 'an exported file is not converted for it: give the config and the checkpoint'


@dataclass(frozen=True)
class Candidate:
    """A file, or a model in PyTorch, to be measured; or a format that is not, and why."""

    runtime: str
    precision: str  # float32, float16 or int8
    path: Path = Path()
    state: str = 'agrees'  # others are not measured, or could not be
    reason: str = ''  # its agreement with the limit, or why it is not measured
    measures: Mapping[str, float] = field(default_factory=dict)  # its agreement by name
    last_steps: Steps | None = None  # what remains for the application after the file
    device: str = 'cpu'  # or the GPU that runs it
    graph: Graph | None = field(default=None, repr=False)  # a model in PyTorch, without a file
    mask_threshold: float = 0.5  # minimum probability of a mask's pixels

    def __str__(self) -> str:
        return f'{self.runtime} {self.precision}: {self.state}: {self.reason}'

    @property
    def agrees(self) -> bool:
        return self.state == 'agrees'

    @property
    def half(self) -> bool:
        return self.precision == 'float16'

    def open(self) -> Run:
        return Job(self.path, half=self.half, device=self.device, graph=self.graph).open().run

    def described(self, errors: Sequence[Measure]) -> 'Candidate':
        """The candidate with its errors, and the one that is closest to its limit in words."""
        closest = min(errors, key=lambda error: error.margin)
        measures = {error.name: error.value for error in errors}
        return replace(self, measures=measures, reason=str(closest))

    def compared(self, expect: Expect, batches: Sequence[Images]) -> 'Candidate':
        """The candidate with its errors on images, if its runtime computes in its precision.

        Raises:
            DisagreementError: If an error exceeds its limit.
        """
        run, steps = self.open(), self.last_steps
        if self.half and self.graph is None:
            single = replace(self, precision='float32').open()
            pairs = ((single(images), run(images)) for images in batches)
            if all(np.array_equal(a[name], b[name]) for a, b in pairs for name in a):
                return replace(self, state='stored only', reason=STORED)
        limits = compare.HALF if self.half else compare.FLOAT
        limits = replace(limits, mask_threshold=self.mask_threshold)
        finished = (lambda images: steps(run(images))) if steps else run
        errors = compare.compare(finished, expect, batches, limits)
        compare.check_agreement(errors, 'the same images')
        return self.described(errors)


def attempt(
    file: Candidate, make: Callable[[Candidate], Candidate], packages: Sequence[str] = ()
) -> Candidate:
    """What ``make`` returns if the packages are installed, or why there is no candidate."""
    state = 'not installed'
    step(f'making {file.runtime} {file.precision}')
    try:
        for package in packages:
            require(package, f'{file.runtime} {file.precision}')
        state = 'not possible'
        return make(file)
    except DisagreementError as error:
        return replace(file, state='rejected', reason=str(error))
    except Exception as error:  # of converters, which have no class in common
        return replace(file, state=state, reason=reason(error))


def file_in(folder: Path, suffix: str, precision: str) -> Candidate:
    """A file in a folder of its own."""
    out = folder / f'{suffix[1:]}_{precision}' / f'model{suffix}'
    out.parent.mkdir(exist_ok=True)
    return Candidate(BY_SUFFIX[suffix].runtime, precision, out)


def float_files(
    source: Exportable, options: ExportOptions, folder: Path, suffix: str
) -> Iterator[Candidate]:
    """Files of a model in float32 and, if the format has it, in float16."""
    kind = BY_SUFFIX[suffix]
    threshold = float(source.metadata.get('mask_threshold', 0.5))

    def make(file: Candidate) -> Candidate:
        written = source.write(file.path, options, half=file.half)
        if written.exported is not source.graph:
            size = tuple(written.batches[0].shape[2:])
            steps = partial(finish, source.graph, written.exported, size=size)
            file = replace(file, last_steps=steps)
        if file.half:
            return file.compared(source.expect, written.batches)
        return file.described(written.errors)

    for precision in ('float32', 'float16') if kind.has_half else ('float32',):
        file = replace(file_in(folder, suffix, precision), mask_threshold=threshold)
        yield attempt(file, make, kind.packages)


def int8_file(
    suffix: str, floats: Mapping[str, Candidate], images: Path | None, folder: Path, **options: Any
) -> Candidate:
    """The int8 file of a format, made from one of ``floats``, which agree with the model.

    It is calibrated and compared on a folder of ``images``; for ``options`` see
    :func:`mmeffvit.deploy.int8.quantize.quantize`.
    """
    kind = BY_SUFFIX[suffix]
    base = kind.int8_source
    file = file_in(folder, suffix, 'int8')
    absent = partial(replace, file, state='not measured')
    if images is None:
        return absent(reason='it is calibrated on images: give --images FOLDER')

    def make(file: Candidate) -> Candidate:
        if base not in floats:
            why = f'it is made from a {base} in float32 that agrees, and there is none'
            return absent(reason=why)
        done = quantize(floats[base].path, images, file.path, allow_slower=True, **options)
        measures = {each.name: each.value for each in done.chosen.measures}
        lowest = [f'{each.kind} {each.value:.3g}' for each in worst(done.chosen.measures)]
        said = ', '.join([*lowest, 'compared with float32'])
        return replace(file, reason=said, measures=measures, last_steps=floats[base].last_steps)

    return attempt(file, make, kind.int8_packages)


def gpu_files(
    device: str,
    floats: Mapping[str, Candidate],
    expect: Expect,
    images: Images,
    graph: Graph | None,
) -> Iterator[Candidate]:
    """The ONNX file, if one agrees on the CPU, and the PyTorch model, if given, on a GPU."""
    threshold = floats['.onnx'].mask_threshold if '.onnx' in floats else 0.5

    def compared(file: Candidate) -> Candidate:
        file = replace(file, mask_threshold=threshold)
        return attempt(file, lambda file: file.compared(expect, [images]))

    if '.onnx' in floats:
        path = floats['.onnx'].path
        yield compared(Candidate('ONNX Runtime CUDA', 'float32', path, device=device))
    for precision in ('float32', 'float16') if graph is not None else ():
        yield compared(Candidate('PyTorch CUDA', precision, device=device, graph=graph))


def check_exported(path: Path, options: ToolOptions) -> tuple[Images, bool]:
    """One batch of the image to compare on, or of noise, and whether a file is quantized already.

    Raises:
        UserError: If it cannot be read or run, or has no fixed size and none is given.
    """
    session = open_model(path)
    count, fixed = session.shape[0], fixed_size(session.shape)
    if options.shape and fixed and options.shape != fixed:
        raise UserError(f'--shape is {options.shape}, but the file takes images of {fixed}')
    shape = options.shape or fixed
    if shape is None:
        raise UserError('the size of the images is not in the file; give --shape HEIGHT WIDTH')
    image = noise_image(shape)
    if options.image is not None:
        read = reader_of((1, 3, *shape), session.metadata)
        image = read(options.image)[0].transpose(1, 2, 0)
    images = compare.batch(image, shape, count if isinstance(count, int) else 1)
    session.run(images)
    return images, NOTE in session.metadata


def exported_files(
    path: Path, expect: Expect, images: Images, is_int8: bool, folder: Path, suffix: str
) -> Iterator[Candidate]:
    """The file itself, or the OpenVINO files of a float ``.onnx``."""

    def make(file: Candidate) -> Candidate:
        to_openvino(path, file.path, half=file.half)
        return file.compared(expect, [images])

    if suffix == path.suffix:
        session, steps = open_model(path), None
        if {*session.outputs} in ({'boxes', 'scores'}, {'logits'}):
            known = parse_metadata(session.metadata)
            steps = partial(last_steps, metadata=known, size=images.shape[2:])
        precision = 'int8' if is_int8 else 'float32'
        yield Candidate(
            BY_SUFFIX[suffix].runtime, precision, path, reason='the file itself', last_steps=steps
        )
    elif suffix == '.xml' and path.suffix == '.onnx' and not is_int8:
        for precision in ('float32', 'float16'):
            yield attempt(file_in(folder, suffix, precision), make, ('openvino',))
    else:
        yield Candidate(BY_SUFFIX[suffix].runtime, 'float32', state='not measured', reason=OTHERS)
