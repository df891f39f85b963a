"""Draw where the attention layers of a backbone look, alone or inside a detector or segmentor."""

from argparse import ArgumentParser
from collections.abc import Sequence
from functools import partial
from typing import Any

from mmeffvit.visualization.attention.run import visualize_attention

from .arguments import new_parser, output_folder, run_command


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, 'attention SwiftFormer:l1 photo.jpg --out attention')
    add = parser.add_argument
    add(
        'target',
        metavar='CONFIG_OR_BACKBONE',
        help='a config of mmdet or mmseg, a saved model, or a backbone such as SHViT:s4 or '
        'EfficientFormerV2:s2:attention=mobile',
    )
    add('images', nargs='+', metavar='IMAGE', help='an image file')
    add(
        '--checkpoint',
        metavar='FILE',
        help='of a run with the config, or released weights of the model or its backbone (default: '
        'those of a saved or released model, otherwise random)',
    )
    add(
        '--out',
        type=output_folder,
        default='work_dirs/attention',
        help='folder for .png sheets and .npz arrays',
    )
    add(
        '--query',
        nargs=2,
        type=int,
        metavar=('X', 'Y'),
        help='pixel of the image to look from (default: the mean over all queries)',
    )
    add(
        '--layers',
        nargs='+',
        default=(),
        metavar='NAME',
        help="layers, or modules around them; '*' stands for anything (default: all)",
    )
    add(
        '--size',
        nargs=2,
        type=int,
        metavar=('H', 'W'),
        help='resize to it (default: what the config tests at; for a backbone, not at all)',
    )
    add('--stretch', action='store_true', help="colors from each map's least value to its greatest")
    return parser


def run(query: Sequence[int] | None, size: Sequence[int] | None, **values: Any) -> None:
    visualize_attention(
        **values, query=tuple(query) if query else None, size=tuple(size) if size else None
    )


main = partial(run_command, make_parser, run)
