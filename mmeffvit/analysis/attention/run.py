"""Contact sheets and raw arrays of a model's attention for images."""

import io
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mmeffvit.analysis.figures import save_figure
from mmeffvit.errors import UserError
from mmeffvit.models.backbone import MIN_SIDE
from mmeffvit.models.layers.reading import Reading
from mmeffvit.utils.files import write_file
from mmeffvit.utils.images import read_image
from mmeffvit.utils.messages import logger

from .recorder import record_attention
from .sheet import InputImage, draw_sheets
from .subject import RANDOM, Size, open_subject

DPI = 100


def visualize_attention(
    target: str,
    images: Sequence[str],
    out: str | Path,
    *,
    checkpoint: str | None = None,
    query: tuple[int, int] | None = None,
    layers: Sequence[str] = (),
    size: Size | None = None,
    stretch: bool = False,
) -> list[Path]:
    """Draw and save the attention maps of a model for every image, and return the files.

    Args:
        target: A config file, or a backbone such as 'SHViT:s4'.
        images: Image files.
        out: Folder for ``NAME.GROUP.png``, one per group of layers, and ``NAME.npz``.
        checkpoint: Checkpoint of a run with the config, or released weights of the model or of its
            backbone.
        query: x and y of a query point in pixels of the images.
        layers: Names or patterns of layers, see :func:`.recorder.attention_layers`.
        size: Height and width in pixels to resize to; None for the test size of the config, or for
            a backbone the original size.
        stretch: Stretch the colors from the minimum to the maximum of each map.

    Raises:
        UserError: If an argument, an image or the checkpoint cannot be used.
        mmeffvit.models.checkpoints.CheckpointError: If the checkpoint cannot be read.
    """
    paths = check_images(images, query)
    if size is not None and min(size) < MIN_SIDE:
        raise UserError(f'--shape is {size[0]} {size[1]}; both must be at least {MIN_SIDE} pixels')
    written = []
    with open_subject(target, checkpoint, size) as subject:
        if subject.remark == RANDOM:
            logger.info('no --checkpoint: the weights are random, and so are the attention maps')
        for path in paths:
            image, inputs = subject.read(path, query)
            with torch.no_grad(), record_attention(subject.model, image.canvas, layers) as readings:
                subject.forward(inputs)
            if query is not None and not any(reading.queried for reading in readings.values()):
                logger.info('--query has no effect: these layers have one map for all queries')
            options = dict(remark=f'; {subject.remark}', stretch=stretch)
            files = save(image, readings, path, Path(out), **options)
            logger.info('\n'.join(map(str, files)))
            written += files
    return written


def check_images(images: Sequence[str], query: tuple[int, int] | None) -> list[Path]:
    """Read all images once, to report errors of the last before the first is drawn."""
    paths = [Path(image) for image in images]
    repeated = [stem for stem, count in Counter(path.stem for path in paths).items() if count > 1]
    if repeated:
        raise UserError(f'several images are called {repeated[0]!r}; draw them in separate runs')
    for path in paths:
        height, width = read_image(path).shape[:2]
        if query is not None and not (0 <= query[0] < width and 0 <= query[1] < height):
            raise UserError(
                f'--query {query[0]} {query[1]} is outside of {path}: x must be below {width} '
                f'and y below {height}'
            )
    return paths


def save(
    image: InputImage, readings: dict[str, Reading], path: Path, out: Path, **options: Any
) -> list[Path]:
    """Write the contact sheets and the arrays of one image, and return the files."""
    written = []
    for group, sheet in draw_sheets(image, readings, path.name, **options):
        written.append(out / f'{path.stem}.{group}.png')
        save_figure(sheet, written[-1], DPI)
    arrays = {
        f'{layer}/{name}': array.numpy()
        for layer, reading in readings.items()
        for name, array in reading.arrays.items()
    }
    arrays['input_size'] = np.array([image.canvas.height, image.canvas.width])
    arrays['content_size'] = np.array(image.content)
    if image.canvas.query is not None:
        arrays['query'] = np.array(image.canvas.query)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    written.append(out / f'{path.stem}.npz')
    write_file(written[-1], buffer.getvalue())
    return written
