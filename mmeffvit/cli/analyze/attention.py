"""Draw attention maps of a backbone, alone or inside a detector or segmentor."""

from argparse import ArgumentParser
from typing import Any

from mmeffvit.analysis.attention.run import visualize_attention

from ..arguments import AsTuple, add_layers, add_out_dir, add_shape, new_parser


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, 'analyze attention SwiftFormer:l1 photo.jpg --out-dir attention')
    add = parser.add_argument
    # fmt: off
    add('target', metavar='CONFIG_OR_BACKBONE',
        help='config, saved model, or backbone such as SHViT:s4 or '
             'EfficientFormerV2:s2:attention=mobile')
    add('images', nargs='+', metavar='IMAGE', help='image file')
    add('--checkpoint', metavar='FILE',
        help='checkpoint of the model or its backbone (default: of a saved or released model, '
             'otherwise random weights)')
    add_out_dir(parser, 'work_dirs/attention', 'output folder of .png sheets and .npz arrays')
    add('--query', nargs=2, type=int, action=AsTuple, metavar=('X', 'Y'),
        help='query pixel (default: mean over all queries)')
    # fmt: on
    add_layers(parser)
    add_shape(
        parser,
        'image size (default: the test size of the config; for a backbone, the size of the image)',
        'size',
    )
    add('--stretch', action='store_true', help='scale the colors of each map to its own range')
    return parser


def run(**values: Any) -> None:
    visualize_attention(**values)
