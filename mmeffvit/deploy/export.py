"""Export of a config and a checkpoint to a file for other runtimes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib import get_data_path
from mmengine.config import Config
from torch import nn

from mmeffvit.config.datasets import image_folders
from mmeffvit.data.files import images_below
from mmeffvit.errors import UserError
from mmeffvit.inference.predictor import Predictor
from mmeffvit.utils.files import check_companions, check_output
from mmeffvit.utils.images import Unreadable
from mmeffvit.utils.messages import logger

from .compare import Expect, check_agreement, compare_pixels, expect_maps, expect_model
from .formats.onnx.write import ExportOptions
from .formats.table import format_of
from .graphs import make_graph
from .graphs.base import Graph, Preprocessing
from .graphs.metadata import config_metadata, model_metadata
from .graphs.plain import BackboneGraph
from .runtime.metadata import Metadata, parse_metadata
from .runtime.resizing import prepare
from .write import Written, write

SAMPLE = 'grace_hopper.jpg'  # a person, 512 x 600 pixels


@dataclass(frozen=True)
class ToolOptions(ExportOptions):
    """Options of an export."""

    backbone_only: bool = False  # export only the backbone's maps
    image: Path | None = None  # to compare on; by default one of the config's data
    half: bool = False  # half precision, for formats that support it

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.image is not None and not self.image.is_file():
            raise UserError(f'--image {str(self.image)!r} does not exist')


def export_model(predictor: Predictor, out: Path, options: ToolOptions) -> Written:
    """Export a trained model to a file for other runtimes, if the file agrees with the model.

    The model must be on the CPU; the suffix of the file selects the format, see
    :mod:`mmeffvit.deploy.formats.table`.

    Raises:
        UserError: If the model cannot be exported, there is no image to compare on, or the file
            disagrees with the model; then nothing is written.
    """
    check_file(out, options)
    return make_exportable(predictor, options).write(out, options, half=options.half)


@dataclass(frozen=True)
class Exportable:
    """The graph to export, and the reference for its files."""

    graph: Graph
    metadata: Mapping[str, str]
    expect: Expect  # outputs of the model itself
    image: tuple[str, np.ndarray]  # to compare on: name and prepared image, (H, W, 3) uint8 RGB

    def write(self, out: Path, options: ExportOptions, *, half: bool = False) -> Written:
        """See :func:`mmeffvit.deploy.write.write`."""
        return write(
            self.graph, out, options, self.metadata, half=half, expect=self.expect, image=self.image
        )


def make_exportable(predictor: Predictor, options: ToolOptions) -> Exportable:
    """See :func:`export_model` for the arguments and errors."""
    model, config = predictor.model, predictor.config
    if (device := next(model.parameters()).device.type) != 'cpu':
        raise UserError(f"the model is on {device}: give Predictor(..., device='cpu')")
    image = options.image or find_image(config)
    graph = graph_of(model, options)
    try:
        prepared = predictor.prepare(predictor.read(image), image)
    except Unreadable as error:
        raise UserError(f'the image to compare on cannot be read: {error}') from error
    ids, offset = predictor.coco_ids().categories, predictor.label_offset
    if not all(isinstance(number, int) for number in ids):
        ids = []  # names in place of numbers
    metadata = config_metadata(
        config, model, predictor.meta, category_ids=ids, label_offset=offset,
        needs_resize=not options.backbone_only,
    )  # fmt: skip
    described = parse_metadata({**model_metadata(graph), **metadata})
    if 'resize' in metadata:
        errors = [compare_pixels(prepared['inputs'].numpy()[::-1], prepare(image, described)[0])]
        check_agreement(errors, str(image))
    warn_of_sides(options.shape, described)
    # (H, W, 3), integers as in an image file
    pixels = np.rint(prepare(image, described, options.shape)[0]).transpose(1, 2, 0)
    if options.backbone_only:
        expect = partial(expect_maps, graph, model.backbone)
    else:
        expect = partial(expect_model, model, sample=prepared['data_samples'])
    return Exportable(graph, metadata, expect, (str(image), pixels.astype(np.uint8)))


def warn_of_sides(shape: tuple[int, int] | None, described: Metadata) -> None:
    """Warn of a size that the config's test pipeline never gives the model."""
    divisor = math.lcm(described.resize['divisor'], described.resize['pad_divisor'])
    better = [-(-side // divisor) * divisor for side in shape or ()]
    if better != list(shape or ()):
        logger.warning(
            f'the test pipeline makes the sides of images multiples of {divisor}: results with '
            f'--shape {better[0]} {better[1]} will be nearer to the model'
        )


def find_image(config: Config) -> Path:
    """An image of the config's data; otherwise one of matplotlib's, with a message."""
    folders = image_folders(config)
    for folder in filter(Path.is_dir, folders):
        if found := images_below(folder):
            return found[0]
    places = ', '.join(sorted({str(folder) for folder in folders})) or 'no folder'
    sample = Path(get_data_path(), 'sample_data', SAMPLE)
    if not sample.is_file():  # some distributions leave it out
        raise UserError(f'no image to compare on (looked in {places}): give one with --image FILE')
    logger.info(
        f'no test images in {places}: compared on an image that comes with matplotlib; '
        '--image FILE takes one of yours'
    )
    return sample


def check_file(out: Path, options: ToolOptions) -> None:
    """Raise UserError if a file with these options cannot be written, before the model is built."""
    kind = format_of(out)
    kind.check(options, half=options.half)
    check_output(out)  # a Core ML package is a folder, but existing ones are not replaced either
    check_companions(out, kind.companions)


def graph_of(model: nn.Module, options: ToolOptions) -> Graph:
    try:
        if not options.backbone_only:
            return make_graph(model)
        preprocessing = Preprocessing.of(model.data_preprocessor)
        return BackboneGraph(model.backbone, preprocessing).eval()
    except ValueError as error:
        raise UserError(f'the model cannot be exported: {error}') from error
