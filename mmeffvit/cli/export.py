"""Export a trained model for other programs: ONNX and what FILE's ending names."""

from argparse import ArgumentParser
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mmeffvit.deploy.export import ToolOptions, export_model
from mmeffvit.deploy.formats import FORMATS

from .arguments import MODEL, add_checkpoint, add_config, new_parser, output_file, run_command


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, 'export configs/retinanet_shvit_s4.py epoch_12.pth model.onnx')
    add = parser.add_argument
    add_config(parser, MODEL)
    add_checkpoint(parser)
    add('out', type=output_file, metavar='FILE', help=', '.join(FORMATS))
    add_graph_options(parser)
    add('--batch', type=int, help='images of every batch; by default any')
    add('--half', action='store_true', help='float16, in .xml, .mlpackage and .param')
    return parser


def add_graph_options(parser: ArgumentParser, size: str = 'any') -> None:
    """What is exported, and the image to compare on.

    Args:
        parser: The parser.
        size: The default size of images, in words.
    """
    add = parser.add_argument
    add(
        '--shape',
        type=int,
        nargs=2,
        metavar=('HEIGHT', 'WIDTH'),
        help=f'of every image; by default {size}',
    )
    add('--backbone-only', action='store_true', help='give the maps of the backbone')
    add('--image', type=Path, help="image to compare on; by default one of the config's data")
    add('--opset', type=int, default=20, help='18 to 23 (default: %(default)s)')


def run(
    config: str, checkpoint: str | None, out: Path, shape: Sequence[int] | None, **values: Any
) -> None:
    options = ToolOptions(shape=tuple(shape) if shape else None, **values)
    print(export_model(config, checkpoint, out, options))


main = partial(run_command, make_parser, run)
