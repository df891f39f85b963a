"""Predict with a trained model: pictures, COCO results or label maps of images and videos."""

from argparse import ArgumentParser
from functools import partial
from pathlib import Path
from typing import Any

from mmeffvit.errors import UserError
from mmeffvit.inference.inputs import is_input
from mmeffvit.inference.predict import PredictOptions, predict

from .arguments import (
    MODEL,
    add_allow_non_finite,
    add_config,
    new_parser,
    output_file,
    output_folder,
    run_command,
)


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, 'predict configs/retinanet_shvit_s4.py epoch_12.pth photos')
    add = parser.add_argument
    add_config(parser, MODEL)
    add(
        'inputs',
        nargs='+',
        metavar='[CHECKPOINT] INPUT',
        help='a checkpoint of a run with this config, or a released model, by its file or '
        'address; left out, the saved or released model; then images, videos, '
        'folders and quoted globs',
    )
    add_allow_non_finite(parser)
    add(
        '--out',
        type=lambda text: (output_file if text.endswith('.json') else output_folder)(text),
        metavar='FILE.json|FOLDER',
        help='COCO results of a detector, or the folder of label maps of a segmentor',
    )
    add(
        '--out-dir',
        type=output_folder,
        default='predictions',
        metavar='FOLDER',
        help='folder of the pictures (default: %(default)s)',
    )
    add('--no-pictures', action='store_true', help='draw nothing')
    add(
        '--score-thr',
        type=float,
        metavar='SCORE',
        help='smallest score of what is drawn and written, 0 to 1; by default pictures have '
        'scores from 0.3 on and results have all',
    )
    add('--device', default='auto', help='auto (default), cpu, cuda:N')
    add('--batch-size', type=int, default=1, help='batch size (default: 1)')
    return parser


def run(config: str, inputs: list[str], out_dir: Path, no_pictures: bool, **values: Any) -> int:
    checkpoint = None if is_input(inputs[0]) else inputs.pop(0)
    if not inputs:
        raise UserError(f'{checkpoint!r} is no image, video, folder or glob: give an INPUT')
    options = PredictOptions(pictures=None if no_pictures else out_dir, **values)
    return predict(config, checkpoint, inputs, options)


main = partial(run_command, make_parser, run)
