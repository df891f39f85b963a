#!/usr/bin/env python
"""Predict with a trained model: pictures, COCO results or label maps of images and videos."""

import argparse
import sys
from pathlib import Path

from arguments import add_cfg_options, add_debug

from mmeffvit.cli.errors import exit_with_message
from mmeffvit.inference.predict import PredictOptions, predict


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('config', help='a config of mmdet or mmseg')
    parser.add_argument('checkpoint', help='a checkpoint of a run with this config')
    parser.add_argument(
        'inputs', nargs='+', metavar='INPUT', help='an image, a video, a folder or a quoted glob'
    )
    parser.add_argument(
        '--out', type=Path, metavar='FILE.json|FOLDER',
        help='COCO results of a detector, or the folder of label maps of a segmentor',
    )  # fmt: skip
    parser.add_argument(
        '--out-dir', type=Path, default=Path('predictions'), metavar='FOLDER',
        help='folder of the pictures (default: %(default)s)',
    )  # fmt: skip
    parser.add_argument('--no-pictures', action='store_true', help='draw nothing')
    parser.add_argument(
        '--score-thr', type=float, metavar='SCORE',
        help='smallest score of what is drawn and written, 0 to 1; by default pictures have '
        'scores from 0.3 on and results have all',
    )  # fmt: skip
    parser.add_argument('--device', default='auto', help='auto (default), cpu, cuda:N')
    parser.add_argument('--batch-size', type=int, default=1, help='images a step (default: 1)')
    add_cfg_options(parser)
    add_debug(parser)
    args = parser.parse_args()
    options = PredictOptions(
        out=args.out,
        pictures=None if args.no_pictures else args.out_dir,
        score_thr=args.score_thr,
        device=args.device,
        batch_size=args.batch_size,
        cfg_options=args.cfg_options,
    )
    with exit_with_message(args.debug):
        sys.exit(predict(args.config, args.checkpoint, args.inputs, options))


if __name__ == '__main__':
    main()
