"""Run a model on images and videos; save visualizations, COCO results, classes or label maps."""

import sys
import warnings
from argparse import ArgumentParser
from functools import partial
from pathlib import Path
from typing import Any

from mmeffvit.deploy.runtime.predictor import ExportedPredictor
from mmeffvit.errors import UserError
from mmeffvit.inference.inputs import is_input
from mmeffvit.inference.predict import PredictOptions, predict
from mmeffvit.inference.predictor import BasePredictor, Predictor
from mmeffvit.zoo.source import Kind, classify

from .arguments import (
    MODEL,
    add_allow_non_finite,
    add_config,
    add_out_dir,
    new_parser,
    output_file,
    output_folder,
)


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, 'predict work_dirs/bolts photos')
    add = parser.add_argument
    add_config(parser, f'{MODEL}; or exported .onnx, .xml, .tflite or .param file')
    # fmt: off
    add('inputs', nargs='+', metavar='[CHECKPOINT] INPUT',
        help='checkpoint file or URL (default: the best one of the run, the saved model, or the '
             'released weights); then images, videos, folders or quoted globs')
    add_allow_non_finite(parser)
    add('--out', type=output_file, metavar='FILE.json',
        help='output: COCO results (detectors) or best classes (classifiers)')
    add('--label-map-dir', dest='label_maps', type=output_folder, metavar='FOLDER',
        help='output folder of label maps (segmentors)')
    add_out_dir(parser, 'predictions', 'output folder of visualizations', 'out_dir')
    add('--no-save-vis', dest='no_drawings', action='store_true', help='save no visualizations')
    add('--score-thr', type=float, metavar='SCORE',
        help='score threshold, 0 to 1 (default: 0.3 for visualizations, none for results)')
    add('--device', default='auto',
        help='cpu, cuda:N or auto; auto is the CPU for an exported file (default: auto)')
    add('--batch', dest='batch_size', type=int, default=1, metavar='N',
        help='batch size (default: 1)')
    # fmt: on
    return parser


def run(
    config: str,
    inputs: list[str],
    out_dir: Path,
    no_drawings: bool,
    device: str,
    cfg_options: dict[str, Any],
    **values: Any,
) -> int:
    exported = classify(config) is Kind.EXPORTED
    has_own = classify(config).has_weights and len(inputs) == 1
    alone = exported or has_own or is_input(inputs[0])
    checkpoint = None if alone else inputs.pop(0)
    if not inputs and '://' not in checkpoint and not Path(checkpoint).exists():
        raise UserError(f'{checkpoint!r} does not exist')
    if not inputs:
        raise UserError(f'{checkpoint!r} is no image, video, folder or glob: give an INPUT')
    if exported and cfg_options:
        raise UserError(f'--cfg-options is for configs, and {config} is an exported file')

    def open_predictor() -> BasePredictor:
        if exported:
            return ExportedPredictor(config, device='cpu' if device == 'auto' else device)
        return Predictor(config, checkpoint, device=device, cfg_options=cfg_options)

    options = PredictOptions(drawings=None if no_drawings else out_dir, **values)
    report = partial(print, file=sys.stderr, flush=True)
    with warnings.catch_warnings():
        warnings.filterwarnings('ignore', module=r'torch\b')  # of what mmdet calls
        summary = predict(open_predictor, inputs, options, report)
    print(summary)
    return 1 if summary.skipped else 0
