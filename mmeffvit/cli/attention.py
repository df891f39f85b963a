"""Draw attention maps of a backbone, alone or inside a detector or segmentor."""

from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

from mmeffvit.visualization.attention.run import visualize_attention

from .arguments import add_alias, new_parser, output_folder


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, 'attention SwiftFormer:l1 photo.jpg --out-dir attention')
    add = parser.add_argument
    add(
        'target',
        metavar='CONFIG_OR_BACKBONE',
        help='config, saved model, or backbone such as SHViT:s4 or '
        'EfficientFormerV2:s2:attention=mobile',
    )
    add('images', nargs='+', metavar='IMAGE', help='image file')
    add(
        '--checkpoint',
        metavar='FILE',
        help='checkpoint of the model or its backbone (default: that of a saved or released model, '
        'otherwise random weights)',
    )
    add(
        '--out-dir',
        dest='out',
        metavar='FOLDER',
        type=output_folder,
        default='work_dirs/attention',
        help='output folder of .png sheets and .npz arrays (default: %(default)s)',
    )
    add(
        '--query',
        nargs=2,
        type=int,
        metavar=('X', 'Y'),
        help='query pixel (default: mean over all queries)',
    )
    add(
        '--layers',
        nargs='+',
        default=(),
        metavar='NAME',
        help="names of layers or of modules that contain them; '*' is a wildcard (default: all)",
    )
    add(
        '--shape',
        dest='size',
        nargs=2,
        type=int,
        metavar=('HEIGHT', 'WIDTH'),
        help='image size (default: the test size of the config; for a backbone, that of the image)',
    )
    add('--stretch', action='store_true', help='scale the colors of each map to its own range')
    add_alias(parser, '--out', '--out-dir')
    add_alias(parser, '--size', '--shape')
    return parser


def run(query: Sequence[int] | None, size: Sequence[int] | None, **values: Any) -> None:
    visualize_attention(
        **values, query=tuple(query) if query else None, size=tuple(size) if size else None
    )
