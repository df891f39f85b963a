"""Profile a model or an exported file: measure every installed runtime, and name the best."""

import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from mmeffvit.deploy.compare import Expect, Images, batch, expect_same
from mmeffvit.deploy.export import Source, ToolOptions, check_sizes, load_source
from mmeffvit.deploy.formats.onnx.write import ExportOptions
from mmeffvit.deploy.formats.table import BY_SUFFIX, OPENED, open_model
from mmeffvit.deploy.graphs.base import Graph
from mmeffvit.errors import UserError
from mmeffvit.utils.files import atomic_output, check_companions, check_output
from mmeffvit.utils.machine import cpu_name, num_cores
from mmeffvit.utils.messages import step
from mmeffvit.utils.text import counted

from .candidates import (
    Absent,
    Candidate,
    Entry,
    check_exported,
    exported_files,
    float_files,
    int8_file,
)
from .gpu import find_gpu, gpu_name, on_gpu
from .layers import LayerTimes
from .report import Measured, Profile
from .rounds import time_in_rounds, working
from .worker import CLOCKS, Job


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

    def check(self) -> None:
        """Check the values.

        Raises:
            UserError: If one is invalid.
        """
        unknown = [each for each in self.formats if each not in OPENED]
        if unknown or not self.formats:
            raise UserError(f'--formats is {" ".join(unknown)}; choose from {" ".join(OPENED)}')
        if not self.threads or min(self.threads) < 1:
            raise UserError(
                f'--threads is {" ".join(map(str, self.threads))}; it must be at least 1'
            )
        if self.clock not in CLOCKS:
            raise UserError(f'--clock is {self.clock!r}; choose from {", ".join(CLOCKS)}')
        if self.clock == 'processor' and set(self.threads) != {1}:
            raise UserError('--clock processor adds the time of all threads; give --threads 1')
        if self.clock == 'processor' and not self.on_cpu:
            raise UserError(f'--clock processor is for the CPU, and --device is {self.device}')
        if self.gpu and not self.on_cpu and '.onnx' not in self.formats:
            raise UserError(f'--device {self.device} measures .onnx; --formats leaves it out')
        if not 0 < self.seconds <= 3600:
            raise UserError(f'--seconds is {self.seconds:g}; give a number above 0, up to 3600')
        if self.images is not None and not self.images.is_dir():
            raise UserError(f'--images {str(self.images)!r} is not a folder')


def thread_counts(cores: int) -> tuple[int, ...]:
    """1, 2, 4 and so on, and the number of cores."""
    return tuple(sorted({*(2**power for power in range(cores.bit_length())), cores}))


def profile_model(
    config_path: str,
    checkpoint: str | None,
    folder: Path,
    export: ToolOptions | None = None,
    options: ProfileOptions | None = None,
) -> Profile:
    """Export a trained model for every installed runtime, and measure the files that agree with it.

    Args:
        config_path: A config file of mmdet or mmseg, the name of one of ours, or a saved model.
        checkpoint: See :class:`mmeffvit.Predictor`.
        folder: Where the files are written.
        export: Options of the export; without a size, the comparison image's size is used.
        options: See :class:`ProfileOptions`.

    Raises:
        UserError: If the model or an option is invalid, or no file agrees.
        mmeffvit.models.checkpoints.CheckpointError: If the checkpoint cannot be read.
    """
    export, options = export or ToolOptions(), options or ProfileOptions()
    check_sizes(export)
    options.check()
    source = load_source(config_path, checkpoint, export)
    shape = export.shape or source.image[1].shape[:2]
    check_sizes(replace(export, shape=shape))
    return profile_source(
        Path(config_path).stem, source, ExportOptions(shape, 1, export.opset), folder, options
    )


def profile_source(
    name: str, source: Source, sizes: ExportOptions, folder: Path, options: ProfileOptions
) -> Profile:
    """As :func:`profile_model`, for a graph, with images of a size and batch size 1."""
    images = batch(source.image[1], sizes.shape, 1)
    floats = partial(float_files, source, sizes, folder)
    entries = make_files(floats, source.expect, images, folder, options, graph=source.graph)
    return measure(name, entries, images, folder, options)


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
        UserError: If the file or an option is invalid.
    """
    export, options = export or ToolOptions(), options or ProfileOptions()
    check_sizes(export)
    options.check()
    images, is_int8 = check_exported(path, export)
    entries = make_files(
        partial(exported_files, path, images, is_int8, folder),
        partial(expect_same, open_model(path).run),
        images,
        folder,
        options,
        bases=() if is_int8 else (path.suffix,),
        size=tuple(images.shape[2:]),
    )
    return measure(path.name, entries, images, folder, options)


def make_files(
    floats: Callable[[str], Iterable[Entry]],
    expect: Expect,
    images: Images,
    folder: Path,
    options: ProfileOptions,
    *,
    graph: Graph | None = None,
    bases: Sequence[str] = OPENED,
    size: tuple[int, int] | None = None,
) -> list[Entry]:
    """Files of every format, in all precisions, and which of them a GPU runs.

    ``floats`` makes the files of a format that are not quantized, ``bases`` are the suffixes of
    those to quantize, and ``size`` is that of the calibration images, by default the file's.
    """
    entries: list[Entry] = []

    def add(made: Iterable[Entry]) -> None:
        for entry in made:
            step(f'{entry.runtime} {entry.precision}: {getattr(entry, "state", "agrees")}')
            entries.append(entry)

    formats = options.formats if options.on_cpu else ('.onnx',)
    # NNCF forks, so it runs before LiteRT's converter, which starts threads
    for suffix in (each for each in OPENED if each in formats):
        add(floats(suffix))
        if options.on_cpu and BY_SUFFIX[suffix].int8_source in bases:
            floats32 = float32_files(entries)
            int8 = dict(score_thr=options.score_thr, size=size)
            add([int8_file(suffix, floats32, options.images, folder, **int8)])
    if options.gpu:
        add(on_gpu(options.gpu, float32_files(entries), expect, images, graph))
    return entries


def float32_files(entries: Iterable[Entry]) -> dict[str, Candidate]:
    """Files in float32 that agree on the CPU, by suffix."""
    return {
        entry.path.suffix: entry
        for entry in entries
        if isinstance(entry, Candidate)
        and entry.path
        and entry.precision == 'float32'
        and entry.device == 'cpu'
    }


def measure(
    name: str, entries: Sequence[Entry], images: Images, folder: Path, options: ProfileOptions
) -> Profile:
    """Time the candidates.

    Raises:
        UserError: If there is none.
    """
    candidates = [
        entry
        for entry in entries
        if isinstance(entry, Candidate) and (options.on_cpu or entry.device != 'cpu')
    ]
    absent = [entry for entry in entries if isinstance(entry, Absent)]
    stored = folder / 'images.npy'
    np.save(stored, images)
    job = partial(Job, images=stored, clock=options.clock)
    measured: list[Measured] = []
    for threads in options.threads:
        jobs = {
            index: job(
                file.path, threads=threads, half=file.half, device=file.device, graph=file.graph
            )
            for index, file in enumerate(candidates)
            if file.device == 'cpu' or threads == options.threads[-1]  # a GPU has its own
        }
        if jobs:
            step(f'timing {counted(len(jobs), "file")}, {counted(threads, "thread")}')
        last_steps = {index: candidates[index].last_steps for index in jobs}
        found, failures = time_in_rounds(jobs, options.seconds, last_steps)
        measured += [Measured(candidates[index], timing) for index, timing in found.items()]
        for index, reason in failures.items():
            file = candidates[index]
            state = f'fails, threads: {threads}'
            absent.append(Absent(file.runtime, file.precision, state, reason))
    if not measured:
        raise UserError(f'nothing can be measured: {"; ".join(map(str, absent))}')
    measured.sort(key=lambda each: each.timing.median)
    layers = layer_times(measured, job, options.seconds)
    return Profile(
        name, images.shape, cpu_name(), num_cores(), options.clock, tuple(measured),
        tuple(absent), layers, gpu_name({each.candidate.device for each in measured}),
    )  # fmt: skip


def layer_times(measured: Sequence[Measured], job: partial, seconds: float) -> LayerTimes | None:
    """Layers of a float32 file on the CPU, in the fastest runtime if it has a profiler."""
    files = float32_files(each.candidate for each in measured)
    known = [suffix for suffix in files if BY_SUFFIX[suffix].times_layers]
    if not known:
        return None
    best = measured[0]
    fastest = best.candidate.path and best.candidate.path.suffix
    path = files[fastest if fastest in known else known[0]].path
    with working(job(path, threads=best.timing.threads, layers=seconds)) as worker:
        return worker.first


def write_best(profile: Profile, out: Path) -> Path:
    """Write the fastest file that agrees, with the files that belong to it.

    Args:
        profile: The result.
        out: The file, written atomically; without a suffix, it gets the best file's.

    Returns:
        The path of the file.

    Raises:
        UserError: If the suffix is another, other files would be overwritten, or only PyTorch was
            measured.
    """
    best = profile.best_file
    path = best.candidate.path
    kind = BY_SUFFIX[path.suffix]
    if out.suffix and out.suffix != path.suffix:
        raise UserError(
            f'--write {out} ends in {out.suffix!r}, but the fastest that agrees is '
            f'{best}: leave the suffix out, write {path.suffix}, or restrict the choice '
            f'with --formats {out.suffix}'
        )
    out = check_output(out.with_suffix(path.suffix))
    if out.exists() and out.samefile(path):
        raise UserError(f'--write {out} is the model itself: choose another name')
    check_companions(out, kind.companions)
    with atomic_output(out) as partial_path:
        for suffix in (path.suffix, *kind.companions):
            if path.with_suffix(suffix).exists():  # ncnn needs no metadata
                shutil.copyfile(path.with_suffix(suffix), partial_path.with_suffix(suffix))
    return out
