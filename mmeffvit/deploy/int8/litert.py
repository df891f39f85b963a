"""Quantize a LiteRT file to int8, and compare it with the float file."""

import json
import os
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from numpy.typing import NDArray

from mmeffvit.deploy.agreement import OBJECTS, agreement
from mmeffvit.deploy.predictor.pictures import find_images, reader_of
from mmeffvit.deploy.predictor.validation import readable
from mmeffvit.deploy.runtimes.litert import LiteRT, read_metadata, write_litert
from mmeffvit.errors import UserError
from mmeffvit.utils.boxes import post_process
from mmeffvit.utils.files import write_file

from .litert_quantizer import int8_litert
from .quantize import NOTE, ROUNDS, Quantization, divide


def quantize_litert(
    model: Path,
    folder: str | os.PathLike,
    out: Path,
    *,
    samples: int,
    exclude: Sequence[str],
    score_thr: float,
    size: tuple[int, int] | None,
) -> Quantization:
    """:func:`~mmeffvit.deploy.int8.quantize.quantize` for a LiteRT file; nothing is excluded.

    Raises:
        UserError: If the file cannot be read, there are too few images, or ``exclude`` has names.
    """
    if list(exclude) not in (['auto'], ['none']):
        raise UserError(
            f'--exclude is {" ".join(exclude)}; names of nodes are for .onnx files only'
        )
    with readable(model):
        metadata = read_metadata(model)
        reference = LiteRT(model)
    calibration, held_out = divide(find_images(folder), samples)
    read = reader_of(reference.shape, metadata, size)
    with readable(model):  # user errors of images pass through
        result, count = int8_litert(model.read_bytes(), (read(path) for path in calibration))
    images = [read(path) for path in held_out]
    with tempfile.TemporaryDirectory() as work:
        partial = Path(work, out.name)
        write_litert(partial, result, metadata)
        quantized = LiteRT(partial)
        measures = agreement(
            [with_objects(reference(image), metadata, score_thr) for image in images],
            # an object whose score only drops below the threshold is not lost
            [with_objects(quantized(image), metadata, score_thr / 2) for image in images],
            score_thr,
        )
        note = dict(
            calibrated=len(calibration), held_out=len(held_out), excluded=[],
            agreement={name: round(value, 6) for name, value in measures.items()},
        )  # fmt: skip
        write_litert(partial, result, {**metadata, NOTE: json.dumps(note)})
        write_file(out, partial.read_bytes())
        times = interleaved((reference, quantized), images[0])
    sizes = (model.stat().st_size, out.stat().st_size)
    return Quantization(len(calibration), len(held_out), count, (), measures, sizes, times)


def with_objects(
    outputs: Mapping[str, NDArray], metadata: Mapping[str, str], score_thr: float
) -> Mapping[str, NDArray]:
    """Outputs of a detector after NMS; others are returned unchanged."""
    if set(outputs) != {'boxes', 'scores'}:
        return outputs
    iou_threshold = float(metadata.get('iou_threshold', 0.5))
    found = post_process(outputs['boxes'][0], outputs['scores'][0], score_thr, iou_threshold)
    return {name: value[None] for name, value in zip(OBJECTS, found, strict=True)}


def interleaved(files: tuple[LiteRT, LiteRT], image: NDArray) -> tuple[float, float]:
    """Median milliseconds of both files for one image on one thread, in CPU time."""
    seconds: list[list[float]] = [[], []]
    for _ in range(ROUNDS + 1):
        for file, samples in zip(files, seconds, strict=True):
            start = time.process_time()
            file(image)
            samples.append(time.process_time() - start)
    # the first round allocates
    return tuple(1000 * statistics.median(each[1:]) for each in seconds)
