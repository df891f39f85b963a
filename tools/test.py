#!/usr/bin/env python
"""Evaluate a checkpoint of a model of mmdet or mmseg as its config says."""

from arguments import make_parser, run_options

from mmeffvit.cli.errors import exit_with_message
from mmeffvit.engine.launch import evaluate


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument('checkpoint', help='a checkpoint of a run with this config')
    parser.add_argument('--show-dir', help='folder for pictures of the predictions')
    parser.add_argument('--out', metavar='FILE.pkl', help='file for the predictions')
    parser.add_argument('--tta', action='store_true', help='merge predictions on flipped copies')
    args = parser.parse_args()
    with exit_with_message(args.debug):
        evaluate(
            args.config,
            args.checkpoint,
            run_options(args),
            show_dir=args.show_dir,
            out=args.out,
            tta=args.tta,
        )


if __name__ == '__main__':
    main()
