"""Profile a model or an exported file: measure every installed runtime, and name the best."""

import shutil
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import torch

from mmeffvit.deploy.compare import Expect, Images, batch, expect_same
from mmeffvit.deploy.export import Exportable, ToolOptions, make_exportable
from mmeffvit.deploy.formats.onnx.write import ExportOptions
from mmeffvit.deploy.formats.table import BY_SUFFIX, OPENED, open_model
from mmeffvit.deploy.graphs.base import Graph
from mmeffvit.errors import UserError
from mmeffvit.inference.predictor import Predictor
from mmeffvit.utils.files import atomic_output, check_companions, check_output
from mmeffvit.utils.machine import cpu_name, num_cores
from mmeffvit.utils.messages import step
from mmeffvit.utils.text import counted

from .candidates import Candidate, check_exported, exported_files, float_files, gpu_files, int8_file
from .pytorch import find_gpu, gpu_name
from .report import Measured, Profile
from .rounds import time_in_rounds
from .worker import CLOCKS, Job, timed


@dataclass(frozen=True)
class ProfileOptions:
    """Options of a profile.

    Args:
        images: Folder of images for int8; None skips int8.
        score_thr: Objects with a lower score are not compared in int8 files.
        formats: Suffixes of the formats to try.
        threads: Numbers of threads; by default 1, 2, 4 and so on up to the number of cores.
        seconds: Time for each file and number of threads; three times as much if it may be best.
        clock: 'wall', or 'processor' for the CPU time of one thread on a busy host.
        device: 'cpu', a GPU as 'cuda' or 'cuda:N', or 'auto' for the CPU and a GPU if there is one.

    Raises:
        UserError: If a value is invalid.
    """

    images: Path | None = None
    score_thr: float = 0.3
    formats: Sequence[str] = OPENED
    threads: Sequence[int] = field(default_factory=lambda: thread_counts(num_cores()))
    seconds: float = 1.0
    clock: str = 'wall'
    device: str = 'auto'

    @cached_property
    def gpu(self) -> str | None:
        """The GPU to measure on; its work does not count as CPU time."""
        return None if self.clock == 'processor' else find_gpu(self.device)

    @property
    def on_cpu(self) -> bool:
        return self.device in ('auto', 'cpu')

    def __post_init__(self) -> None:
        threads = ' '.join(map(str, self.threads))
        is_cpu_time = self.clock == 'processor'
        faults = (
            (min(self.threads, default=0) < 1, f'--threads is {threads}; it must be at least 1'),
            (is_cpu_time and set(self.threads) != {1},
             '--clock processor adds the time of all threads; give --threads 1'),
            (is_cpu_time and not self.on_cpu,
             f'--clock processor is for the CPU, and --device is {self.device}'),
            (not self.on_cpu and '.onnx' not in self.formats,
             f'--device {self.device} measures .onnx; --formats leaves it out'),
            (not 0 < self.seconds <= 3600,
             f'--seconds is {self.seconds:g}; give a number above 0, up to 3600'),
            (self.images is not None and not self.images.is_dir(),
             f'--images {str(self.images)!r} is not a folder'),
            (not 0 <= self.score_thr <= 1,
             f'--score-thr is {self.score_thr}; give a score from 0 to 1'),
        )  # fmt: skip
        for is_wrong, message in faults:
            if is_wrong:
                raise UserError(message)
        find_gpu(self.device)


def thread_counts(cores: int) -> tuple[int, ...]:
    """1, 2, 4 and so on, and the number of cores."""
    return tuple(sorted({*(2**power for power in range(cores.bit_length())), cores}))


def profile_model(
    predictor: Predictor,
    folder: Path,
    export: ToolOptions | None = None,
    options: ProfileOptions | None = None,
) -> Profile:
    """Export a trained model for every installed runtime, and measure the files that agree with it.

    Args:
        predictor: The model, on the CPU.
        folder: Where the files are written.
        export: Options of the export; without a size, the comparison image's size is used.
        options: See :class:`ProfileOptions`.

    Raises:
        UserError: If the model cannot be exported, or no file agrees.
    """
    export = export or ToolOptions()
    source = make_exportable(predictor, export)
    sizes = ExportOptions(export.shape or source.image[1].shape[:2], 1, export.opset)
    name = Path(predictor.config.filename).stem
    return profile_source(name, source, sizes, folder, options or ProfileOptions())


def profile_source(
    name: str, source: Exportable, sizes: ExportOptions, folder: Path, options: ProfileOptions
) -> Profile:
    """As :func:`profile_model`, for a graph, with images of a size and batch size 1."""
    images = batch(source.image[1], sizes.shape, 1)
    floats = partial(float_files, source, sizes, folder)
    files = make_files(floats, source.expect, images, folder, options, graph=source.graph)
    return measure(name, list(files), images, folder, options)


def profile_file(
    path: Path,
    folder: Path,
    export: ToolOptions | None = None,
    options: ProfileOptions | None = None,
) -> Profile:
    """Measure an exported file in its runtime, and files made from it if they agree with it.

    Args:
        path: The file. An ``.onnx`` is also converted to OpenVINO, and with ``images`` both and a
            ``.tflite`` are quantized.
        folder: Where the files are written.
        export: ``shape`` of the images, for files of any size, and the ``image`` to compare on.
        options: See :class:`ProfileOptions`.

    Raises:
        UserError: If the file is invalid, or does not fit the options.
    """
    options = options or ProfileOptions()
    images, is_int8 = check_exported(path, export or ToolOptions())
    expect = partial(expect_same, open_model(path).run)
    floats = partial(exported_files, path, expect, images, is_int8, folder)
    bases = () if is_int8 else (path.suffix,)
    files = make_files(floats, expect, images, folder, options, bases=bases)
    return measure(path.name, list(files), images, folder, options)


def make_files(
    floats: Callable[[str], Iterable[Candidate]],
    expect: Expect,
    images: Images,
    folder: Path,
    options: ProfileOptions,
    *,
    graph: Graph | None = None,
    bases: Sequence[str] = OPENED,
) -> Iterator[Candidate]:
    """Files of every format, in all precisions, and which of them a GPU runs.

    ``floats`` makes the files of a format that are not quantized, ``bases`` are the suffixes of
    those to quantize.
    """
    formats = options.formats if options.on_cpu else ('.onnx',)
    int8 = dict(score_thr=options.score_thr, size=tuple(images.shape[2:]))
    known: dict[str, Candidate] = {}  # in float32
    # NNCF forks, so it runs before LiteRT's converter, which starts threads
    for suffix in (each for each in OPENED if each in formats):
        made = list(floats(suffix))
        yield from made
        known |= {f.path.suffix: f for f in made if f.agrees and f.precision == 'float32'}
        if options.on_cpu and BY_SUFFIX[suffix].int8_source in bases:
            yield int8_file(suffix, known, options.images, folder, **int8)
    if options.gpu:
        yield from gpu_files(options.gpu, known, expect, images, graph)


def measure(
    name: str, files: Sequence[Candidate], images: Images, folder: Path, options: ProfileOptions
) -> Profile:
    """Time the files that agree; UserError if there is none."""
    absent = [each for each in files if not each.agrees]
    chosen = [each for each in files if each.agrees and (options.on_cpu or each.device != 'cpu')]
    stored = folder / 'images.npy'
    np.save(stored, images)
    measured: list[Measured] = []
    for threads in options.threads:
        jobs = {
            i: Job(each.path, stored, threads, each.half, options.clock, each.device, each.graph)
            for i, each in enumerate(chosen)
            if each.device == 'cpu' or threads == options.threads[-1]  # a GPU has its own
        }
        if jobs:
            step(f'timing {counted(len(jobs), "file")}, {counted(threads, "thread")}')
        after = {i: last_steps(chosen[i], images, threads, options) for i in jobs}
        found, failures = time_in_rounds(jobs, options.seconds, after)
        measured += [Measured(chosen[index], timing) for index, timing in found.items()]
        state = f'fails, threads: {threads}'
        absent += [replace(chosen[i], state=state, reason=why) for i, why in failures.items()]
    if not measured:
        raise UserError(f'nothing can be measured: {"; ".join(map(str, absent))}')
    measured.sort(key=lambda each: each.timing.median)
    return Profile(
        name, images.shape, cpu_name(), num_cores(), options.clock, tuple(measured), tuple(absent),
        ', '.join(map(gpu_name, sorted({each.candidate.device for each in measured} - {'cpu'}))),
    )  # fmt: skip


def last_steps(file: Candidate, images: Images, threads: int, options: ProfileOptions) -> float:
    """Median seconds of what remains for the application, here in torch."""
    if file.last_steps is None:
        return 0.0
    outputs, before = file.open()(images), torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        clock = CLOCKS[options.clock]
        times = timed(lambda: file.last_steps(outputs), options.seconds / 2, clock)
    finally:
        torch.set_num_threads(before)
    return statistics.median(times)


def write_best(profile: Profile, out: Path) -> Path:
    """Write the fastest file that agrees, with the files that belong to it, and return its path.

    ``out`` is written atomically; without a suffix, it gets the best file's.

    Raises:
        UserError: If the suffix is another, other files would be overwritten, or only PyTorch was
            measured.
    """
    best = next((each for each in profile.measured if each.candidate.graph is None), None)
    if best is None:
        raise UserError(f'nothing to write: {profile.best} is not an exported file')
    path = best.candidate.path
    suffixes = (path.suffix, *BY_SUFFIX[path.suffix].companions)
    if out.suffix and out.suffix != path.suffix:
        raise UserError(
            f'--write {out} ends in {out.suffix!r}, but the fastest that agrees is '
            f'{best}: leave the suffix out, write {path.suffix}, or restrict the choice '
            f'with --formats {out.suffix}'
        )
    out = check_output(out.with_suffix(path.suffix))
    if out.exists() and out.samefile(path):
        raise UserError(f'--write {out} is the model itself: choose another name')
    check_companions(out, suffixes[1:])
    with atomic_output(out) as partial_path:
        for suffix in suffixes:
            if path.with_suffix(suffix).exists():  # ncnn needs no metadata
                shutil.copyfile(path.with_suffix(suffix), partial_path.with_suffix(suffix))
    return out
