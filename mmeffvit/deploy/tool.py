"""From a config and a checkpoint to a file that other programs run."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from mmengine.config import Config

from mmeffvit.checks.run import datasets_in
from mmeffvit.config.load import load_config
from mmeffvit.errors import UserError
from mmeffvit.inference.model import Predictor, load_predictor
from mmeffvit.utils.files import atomic_output, check_output
from mmeffvit.utils.optional import require

from .formats import FORMATS, write
from .graphs import Graph, Preprocessing, make_graph
from .graphs.backbone import BackboneGraph
from .onnx.compare import compare, refuse_disagreement, test_batches
from .onnx.export import OPSET, ExportOptions
from .onnx.metadata import config_metadata

IMAGES = ('.jpg', '.jpeg', '.png')


@dataclass(frozen=True)
class ToolOptions:
    """What the command line says of an export.

    Args:
        shape: Height and width of every image in pixels; None leaves them open.
        batch: Images of every batch; None leaves it open.
        backbone_only: Export the maps of the backbone.
        image: To compare on; by default one of the config's data.
        opset: Version of the ONNX operators.
        half: Half precision, for the formats that have it.
        cfg_options: Dotted keys and values that replace the config's.
    """

    shape: tuple[int, int] | None = None
    batch: int | None = None
    backbone_only: bool = False
    image: Path | None = None
    opset: int = OPSET
    half: bool = False
    cfg_options: Mapping[str, Any] = field(default_factory=dict)


def export_model(
    config_path: str, checkpoint: str, out: str | Path, options: ToolOptions | None = None
) -> str:
    """Write a trained model to a file for other programs, if it gives what the model gives.

    Args:
        config_path: The config file, of either host.
        checkpoint: A checkpoint of a run with this config.
        out: The file; its ending names the format, see :data:`mmeffvit.deploy.formats.FORMATS`.
        options: See :class:`ToolOptions`.

    Returns:
        A report.

    Raises:
        UserError: If the model cannot be exported, there is no image to compare on, or the file
            would disagree; then nothing is written.
        mmeffvit.checkpoints.CheckpointError: If the checkpoint cannot be read.
    """
    options, out = options or ToolOptions(), Path(out)
    check_options(out, options)
    config = load_config(config_path, options.cfg_options)
    predictor = load_predictor(
        config_path, checkpoint, device='cpu', cfg_options=options.cfg_options
    )
    image = options.image or find_image(config)
    started = time.perf_counter()
    graph = graph_of(predictor, options)
    metadata = config_metadata(config, predictor.model, predictor.visualizer.dataset_meta)
    sizes = ExportOptions(options.shape, options.batch, options.opset)
    if out.suffix != '.onnx':
        return write(graph, out, sizes, metadata, half=options.half)
    with atomic_output(out) as partial:
        write(graph, partial, sizes, metadata, half=options.half)
        errors = verify(partial, graph, predictor, image, sizes)
    return report(out, errors, image, time.perf_counter() - started)


def check_options(out: Path, options: ToolOptions) -> None:
    """Refuse what cannot be before the model is built.

    Raises:
        UserError: If the ending, a size, the opset or the image is not one of its choices.
    """
    if out.suffix not in FORMATS:
        choices = ', '.join(f'{ending} ({what})' for ending, what in FORMATS.items())
        raise UserError(f'{out} has the ending {out.suffix!r}; choose among {choices}')
    check_output(out)  # a package of Core ML is a folder, but an existing one is not removed either
    weights = out.with_suffix('.bin')  # beside an .xml
    if out.suffix == '.xml' and weights.exists() and not out.exists():
        raise UserError(f'{weights} would be replaced by the weights of {out}: choose another name')
    if options.shape is not None and min(options.shape) < 32:
        raise UserError(f'--shape is {options.shape}; sides start at 32 pixels')
    if options.batch is not None and options.batch < 1:
        raise UserError(f'--batch is {options.batch}; it starts at 1')
    if not 18 <= options.opset <= 23:
        raise UserError(f'--opset is {options.opset}; choose 18 to 23')
    if options.image is not None and not options.image.is_file():
        raise UserError(f'--image {str(options.image)!r} does not exist')
    if out.suffix == '.onnx':
        for package in ('onnx', 'onnxruntime', 'onnxscript'):
            require(package, 'the export to ONNX')


def find_image(config: Config) -> Path:
    """An image of the data that the config tests on, else validates on.

    Raises:
        UserError: If there is none.
    """
    tried = []
    for split in ('test', 'val'):
        for settings in datasets_in((config.get(f'{split}_dataloader') or {}).get('dataset')):
            prefix = settings.get('data_prefix') or {}
            folder = prefix.get('img') or prefix.get('img_path') or ''
            tried.append(Path(settings.get('data_root') or '', folder))
    for folder in tried:
        if folder.is_dir():
            for path in sorted(folder.iterdir()):
                if path.suffix.lower() in IMAGES:
                    return path
    places = ', '.join(sorted({str(folder) for folder in tried})) or 'no folder'
    raise UserError(
        f'there is no image to compare the export on (looked in {places}): give one, --image FILE'
    )


def graph_of(predictor: Predictor, options: ToolOptions) -> Graph:
    model = predictor.model
    try:
        if not options.backbone_only:
            return make_graph(model)
        preprocessing = Preprocessing.of(model.data_preprocessor)
        return BackboneGraph(model.backbone, preprocessing).eval()
    except ValueError as error:
        raise UserError(f'the model cannot be exported: {error}') from error


def verify(
    path: Path, graph: Graph, predictor: Predictor, image: Path, options: ExportOptions
) -> list:
    """Compare the file with the model on the image.

    Raises:
        UserError: If they disagree.
    """
    prepared = predictor.prepare(predictor.read(image), image, 0)
    pixels = prepared['inputs'].numpy()[::-1].transpose(1, 2, 0)  # RGB, (H, W, 3)
    batches = test_batches(np.ascontiguousarray(pixels), options)
    model = predictor.model.backbone if graph.task == 'features' else predictor.model
    errors = compare(path, graph, model, batches, prepared['data_samples'])
    refuse_disagreement(errors, dict(image=image))
    return errors


def report(out: Path, errors: list, image: Path, seconds: float) -> str:
    """The file, its outputs and the largest errors, in a few lines."""
    import onnx

    model = onnx.load(out)

    def shape(value: Any) -> str:
        sides = value.type.tensor_type.shape.dim
        return '(' + ', '.join(side.dim_param or str(side.dim_value) for side in sides) + ')'

    values = [f'  {v.name} {shape(v)}' for v in (*model.graph.input, *model.graph.output)]
    return '\n'.join(
        [
            f'{out}: {out.stat().st_size / 2**20:.1f} MiB, '
            f'opset {model.opset_import[0].version}, in {seconds:.0f} s',
            *values,
            f'largest errors against the model on {image}:',
            *(f'  {error}' for error in errors),
        ]
    )
