"""Quantize an ONNX file to int8, and compare it with the float file."""

import itertools
import json
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from mmeffvit.deploy.agreement import agreement
from mmeffvit.deploy.predictor.pictures import find_images, reader_of
from mmeffvit.deploy.predictor.validation import check_input, check_size, readable
from mmeffvit.errors import UserError
from mmeffvit.utils.files import check_output, write_file
from mmeffvit.utils.onnx import open_session, run_session
from mmeffvit.utils.optional import require

from .quantizer import PURPOSE, Quantizer
from .sensitivity import IMAGES, measure, sensitive

HELD_OUT = 32  # maximum number of images for the comparison
ROUNDS = 10  # of the timing
LITERT = '.tflite'
NOTE = 'quantization'  # key of the metadata


@dataclass(frozen=True)
class Quantization:
    """Result of a quantization.

    Args:
        calibrated: Number of calibration images.
        held_out: Number of other images, used for the comparison.
        quantized: Number of int8 nodes.
        excluded: Names of quantizable nodes that remain in float.
        measures: Agreement of the int8 file with the float file.
        sizes: Bytes of the float file and of the int8 file.
        milliseconds: Median time per image on one thread, float and int8 interleaved.
    """

    calibrated: int
    held_out: int
    quantized: int
    excluded: tuple[str, ...]
    measures: dict[str, float]
    sizes: tuple[int, int]
    milliseconds: tuple[float, float]

    def __str__(self) -> str:
        rows = [
            ('calibrated on', f'{self.calibrated} images'),
            ('compared on', f'{self.held_out} others'),
            ('int8 nodes', f'{self.quantized}, {len(self.excluded)} kept in float'),
            *((name, f'{value:.4g}') for name, value in self.measures.items()),
            ('size', f'{self.sizes[0] / 1e6:.1f} -> {self.sizes[1] / 1e6:.1f} MB'),
            (
                'time, one thread',
                f'{self.milliseconds[0]:.1f} -> {self.milliseconds[1]:.1f} ms '
                f'(x {self.milliseconds[0] / self.milliseconds[1]:.2f})',
            ),
        ]
        width = max(len(name) for name, _ in rows)
        return '\n'.join(f'{name:<{width}}  {value}' for name, value in rows)


def quantize(
    model: str | os.PathLike,
    folder: str | os.PathLike,
    out: str | os.PathLike,
    *,
    samples: int = 64,
    exclude: Sequence[str] = ('auto',),
    score_thr: float = 0.3,
    size: tuple[int, int] | None = None,
) -> Quantization:
    """Quantize an ONNX file to int8, compare it with the float file, and write it.

    Args:
        model: An ONNX or LiteRT file of the export.
        folder: Images for calibration and for the comparison.
        out: The file, in the format of ``model``; it is written atomically.
        samples: Maximum number of calibration images; a third of the folder is always held out.
        exclude: 'auto' keeps the parts in float that are measured to be most sensitive, 'none'
            keeps none; otherwise names of nodes to keep in float.
        score_thr: Objects of the float file with a lower score are not compared.
        size: Height and width of the images; by default that of the file.

    Raises:
        UserError: If an argument or the file is invalid, there are too few images, no node can be
            quantized, or a name is unknown.
    """
    model = Path(model)
    out = check_output(out, LITERT if model.suffix == LITERT else '.onnx')
    check_size(size, '--size')
    if not 0 <= score_thr <= 1:
        raise UserError(f'--score-thr is {score_thr}; give a score from 0 to 1')
    with readable(model):
        if out.exists() and out.samefile(model):
            raise UserError(f'{str(out)!r} is the float file itself: choose another name')
    if model.suffix == LITERT:
        from .litert import quantize_litert  # which uses parts of this module

        options = dict(samples=samples, exclude=exclude, score_thr=score_thr, size=size)
        return quantize_litert(model, folder, out, **options)
    with readable(model):
        reference = open_session(model)
    check_input(reference, model)
    calibration, held_out = divide(find_images(folder), samples)
    metadata = reference.get_modelmeta().custom_metadata_map
    read = reader_of(reference.get_inputs()[0].shape, metadata, size)
    with readable(model):  # user errors of images pass through
        quantizer = Quantizer(model, (read(path) for path in calibration))
    if not quantizer.nodes:
        raise UserError(f'{model} has no convolution or matrix product with a weight to quantize')
    kept = excluded(quantizer, exclude, [read(path) for path in calibration[:IMAGES]])
    chosen = [name for name in quantizer.nodes if name not in kept]
    result = quantizer.quantized(chosen)

    images = [read(path) for path in held_out]
    quantized = open_session(result.SerializeToString())
    measures = agreement(
        [run_session(reference, image) for image in images],
        [run_session(quantized, image) for image in images],
        score_thr,
    )
    note = dict(
        calibrated=len(calibration), held_out=len(held_out), excluded=sorted(kept),
        agreement={name: round(value, 6) for name, value in measures.items()},
    )  # fmt: skip
    annotate(result, metadata, note)
    write_file(out, result.SerializeToString())
    return Quantization(
        len(calibration),
        len(held_out),
        len(chosen),
        tuple(sorted(kept)),
        measures,
        (model.stat().st_size, out.stat().st_size),
        times(model, out, images[0]),
    )


def divide(paths: Sequence[Path], samples: int) -> tuple[list[Path], list[Path]]:
    """Evenly spaced images for calibration, and others for the comparison.

    Raises:
        UserError: If there are fewer than two, or ``samples`` is less than 1.
    """
    if samples < 1:
        raise UserError(f'samples is {samples}; give 1 or more')
    if len(paths) < 2:
        raise UserError(
            f'{paths[0].parent} has one image; at least two are needed, since one is held out'
        )
    count = min(samples, max(1, len(paths) * 2 // 3))
    chosen = {len(paths) * index // count for index in range(count)}
    calibration = [path for index, path in enumerate(paths) if index in chosen]
    rest = [path for index, path in enumerate(paths) if index not in chosen]
    return calibration, rest[:HELD_OUT]


def excluded(quantizer: Quantizer, exclude: Sequence[str], images: Sequence[NDArray]) -> set[str]:
    """Nodes to keep in float.

    Raises:
        UserError: If a name is not that of a quantizable node.
    """
    if list(exclude) == ['none']:
        return set()
    if list(exclude) == ['auto']:
        groups, _ = measure(quantizer, images)
        return set(itertools.chain.from_iterable(group.nodes for group in sensitive(groups)))
    unknown = sorted(set(exclude) - set(quantizer.nodes))
    if unknown:
        raise UserError(
            f'no node to quantize is called {", ".join(unknown)}; choose auto, none, or from '
            f'{", ".join(quantizer.nodes)}'
        )
    return set(exclude)


def annotate(model: Any, metadata: dict[str, str], note: dict[str, Any]) -> None:
    """Copy the metadata of the float file, and add an entry on the quantization."""
    onnx = require('onnx', PURPOSE)
    onnx.helper.set_model_props(model, {**metadata, NOTE: json.dumps(note)})


def times(model: Path, out: Path, image: NDArray) -> tuple[float, float]:
    """Median milliseconds of both files for one image on one thread, interleaved.

    CPU time, so that other load on the machine does not count.
    """
    sessions = [open_session(path, threads=1) for path in (model, out)]
    seconds: list[list[float]] = [[], []]
    for _ in range(ROUNDS + 1):
        for index, each in enumerate(sessions):
            start = time.process_time()
            run_session(each, image)
            seconds[index].append(time.process_time() - start)
    # the first round allocates
    return tuple(1000 * statistics.median(each[1:]) for each in seconds)
