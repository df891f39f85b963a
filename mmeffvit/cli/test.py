"""Evaluate a checkpoint, or an exported file, on the test set of a config."""

from argparse import ArgumentParser
from typing import Any

from mmeffvit.errors import UserError
from mmeffvit.train.engine.evaluate import EvaluationOptions, evaluate
from mmeffvit.utils.interrupts import reports
from mmeffvit.zoo.source import Kind, classify

from .arguments import MODEL, add_checkpoint, add_run, new_parser, output_file, output_folder, take
from .console import run_console, summary


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, 'test configs/retinanet_shvit_s4.py epoch_12.pth --out found.pkl')
    add = parser.add_argument
    add_run(parser, MODEL)
    add_checkpoint(parser)
    add('--show-dir', type=output_folder, metavar='FOLDER',
        help='save visualizations to this folder')  # fmt: skip
    add('--out', type=output_file, metavar='FILE.pkl', help='save the predictions to this file')
    add('--tta', action='store_true', help='test-time augmentation with horizontal flips')
    return parser


def run(config: str, checkpoint: str | None, **values: Any) -> None:
    options = EvaluationOptions(**take(values, EvaluationOptions))
    if checkpoint is not None and classify(checkpoint) is Kind.EXPORTED:
        if options.tta:
            raise UserError(f'--tta is for checkpoints, and {checkpoint} is an exported file')
        for name in options.cfg_options:
            if name.startswith('model.') or 'pipeline' in name:
                raise UserError(
                    f'--cfg-options {name} has no effect on {checkpoint}: export the model with it'
                )
        from mmeffvit.deploy.evaluate import FileStep

        options.step, checkpoint = FileStep(checkpoint), None
    with run_console(options.verbose) as options.hooks:
        runner, metrics = evaluate(config, checkpoint, options)
    if reports() and not options.verbose:
        print(summary(metrics, config))
        print(f'log: {runner.log_dir}')
