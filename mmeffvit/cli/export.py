"""Export a model to ONNX, OpenVINO or another format, selected by the suffix of the output file."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from mmeffvit.deploy.export import ToolOptions, check_file, export_model
from mmeffvit.deploy.formats.table import BY_SUFFIX
from mmeffvit.inference.predictor import Predictor

from .arguments import MODEL, add_checkpoint, add_config, add_shape, new_parser, output_file
from .console import working


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, 'export configs/retinanet_shvit_s4.py epoch_12.pth model.onnx')
    add = parser.add_argument
    add_config(parser, MODEL)
    add_checkpoint(parser)
    add('out', type=output_file, metavar='OUT', help=f'output file: {", ".join(BY_SUFFIX)}')
    add_graph_options(parser)
    add('--batch', type=int, metavar='N', help='fixed batch size (default: any)')
    add('--half', action='store_true', help='half precision (.xml, .mlpackage and .param)')
    return parser


def add_graph_options(parser: ArgumentParser, size: str = 'any') -> None:
    """Add what is exported, by default for images of ``size``, and an image to verify it on."""
    add = parser.add_argument
    add_shape(parser, f'fixed image size (default: {size})')
    add('--backbone-only', action='store_true', help='export the backbone only')
    add(
        '--image',
        type=Path,
        metavar='FILE',
        help='image to verify the export on (default: one of the test set, else a sample)',
    )
    add('--opset', type=int, default=20, metavar='N',
        help='ONNX opset version, 18 to 23 (default: %(default)s)')  # fmt: skip


def run(
    config: str, checkpoint: str | None, out: Path, cfg_options: dict[str, Any], **values: Any
) -> None:
    options = ToolOptions(**values)
    check_file(out, options)
    with working(f'exporting to {out}'):
        predictor = Predictor(config, checkpoint, device='cpu', cfg_options=cfg_options)
        text = export_model(predictor, out, options)
    print(text)
