#!/usr/bin/env python
"""Export a trained model for other programs: ONNX and what FILE's ending names."""

import argparse
from pathlib import Path

from arguments import add_cfg_options, add_debug

from mmeffvit.cli.errors import exit_with_message
from mmeffvit.deploy.tool import ToolOptions, export_model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('config', help='a config of mmdet or mmseg')
    parser.add_argument('checkpoint', help='a checkpoint of a run with this config')
    parser.add_argument('out', metavar='FILE', help='.onnx, .xml, .pte or .mlpackage')
    parser.add_argument(
        '--shape', type=int, nargs=2, metavar=('HEIGHT', 'WIDTH'),
        help='of every image; by default any',
    )  # fmt: skip
    parser.add_argument('--batch', type=int, help='images of every batch; by default any')
    parser.add_argument(
        '--backbone-only', action='store_true', help='give the maps of the backbone'
    )
    parser.add_argument(
        '--image', type=Path, help="image to compare on; by default one of the config's data"
    )
    parser.add_argument('--opset', type=int, default=20, help='18 to 23 (default: %(default)s)')
    parser.add_argument('--half', action='store_true', help='float16, in .xml and .mlpackage')
    add_cfg_options(parser)
    add_debug(parser)
    args = parser.parse_args()
    options = ToolOptions(
        shape=tuple(args.shape) if args.shape else None,
        batch=args.batch,
        backbone_only=args.backbone_only,
        image=args.image,
        opset=args.opset,
        half=args.half,
        cfg_options=args.cfg_options,
    )
    with exit_with_message(args.debug):
        print(export_model(args.config, args.checkpoint, args.out, options))


if __name__ == '__main__':
    main()
