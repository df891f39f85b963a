"""Train a model on a dataset or with a config.

For a dataset, in any format of docs/data.md, a config is written to the work dir and trained.
It can be edited and trained like any other config.
"""

import math
import shlex
from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mmengine.config import Config

from mmeffvit.config.load import find_config
from mmeffvit.data.detect import Task
from mmeffvit.data.prepare import PrepareOptions
from mmeffvit.errors import UserError
from mmeffvit.train.engine.options import TrainOptions, check_accelerator, use_device
from mmeffvit.train.engine.processes import run_of, train_in_processes
from mmeffvit.train.engine.step_format import ROUNDED
from mmeffvit.train.engine.train import train
from mmeffvit.train.folder.classify import classify as train_classifier
from mmeffvit.train.folder.options import FinetuneOptions
from mmeffvit.train.folder.recipe import Overrides
from mmeffvit.train.folder.run import finetune
from mmeffvit.utils.interrupts import reports
from mmeffvit.zoo.source import classify

from .arguments import (
    MODEL,
    OF_CONFIG,
    OF_DATA,
    add_allow_non_finite,
    add_folders,
    add_reading,
    add_run,
    check_seed,
    find_data,
    names_in,
    new_parser,
    reject,
    take,
)
from .console import RunConsole, run_console

MAX_WORKERS = 1000
AS_SETTINGS = {'channels_last': 'channels_last', 'workers': 'train_dataloader.num_workers'}


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, 'train data/bolts --model rtmdet_swiftformer_xs --epochs 50')
    add_run(parser, f'dataset: folder, data.yaml or JSON file; or {MODEL}', 'DATA|CONFIG')
    add_training(parser)
    add_allow_non_finite(parser)
    group = parser.add_argument_group(OF_CONFIG)
    # fmt: off
    group.add_argument('--auto-scale-lr', action='store_true',
                       help='scale the learning rate by the total batch size')
    group.add_argument('--no-check', dest='check', action='store_false',
                       help='do not check the config and its data before training')
    group = parser.add_argument_group(OF_DATA)
    group.add_argument('--model', metavar='NAME',
                       help='name of a model, see `mmeffvit models` (default: a small one)')
    # fmt: on
    add_overrides(group)
    add_folders(group)
    return parser


def add_training(parser: ArgumentParser) -> None:
    """How steps are run."""
    add = parser.add_argument
    # fmt: off
    add('--amp', action=BooleanOptionalAction,
        help='train in mixed precision (default: for a dataset, on accelerators)')
    add('--lr', type=float, metavar='RATE', help='learning rate (default: set by the config)')
    add('--workers', type=int, metavar='N', help='data loading processes per training process')
    add('--amp-dtype', choices=('float16', ROUNDED),
        help='mixed precision in this type; bfloat16 has no loss scale and works on CPUs, too '
             '(default: float16 with --amp)')
    add('--channels-last', action=BooleanOptionalAction,
        help='memory layout of images and feature maps (default: channels_last on CPUs)')
    add('--device', help='cpu, cuda, cuda:N or mps (default: an accelerator if there is one)')
    add('--nproc-per-node', dest='processes', type=int, metavar='N',
        help='number of processes on this machine, one per GPU')
    add('--resume', nargs='?', const='auto', metavar='CHECKPOINT',
        help='resume from CHECKPOINT (default: the latest valid one in the work dir)')
    # fmt: on


def add_overrides(group: Any) -> None:
    """Sizes and lengths of the training on a dataset, and how it is read."""
    add = group.add_argument
    # fmt: off
    add('--image-size', type=int, metavar='PIXELS',
        help="training image size (default: the images' typical size, up to the model's)")
    add('--batch', type=batch_size, metavar='N',
        help='total batch size, or auto for the largest that fits')
    add('--epochs', type=int, metavar='N', help="default: chosen from the dataset's size")
    add('--patience', type=int, metavar='N',
        help='stop after N epochs without improvement (0: never)')
    add('--freeze', type=int, metavar='N', help='freeze the stem and N stages of the backbone')
    add('--grad-accum-steps', dest='accumulate', type=int, metavar='N',
        help='gradient accumulation steps')
    add('--class-balanced', dest='balance', action='store_true',
        help='oversample images of rare classes; for segmentors, weight classes in the loss '
             '(default from random weights)')
    add('--weights', metavar='FILE', help='initial weights: checkpoint file or URL, or none')
    add('--export', nargs='+', metavar='.SUFFIX',
        help='formats to export after training: .onnx (default), .xml, .pte, .mlpackage, .tflite, '
             '.param, or none')
    add('--int8', action='store_true',
        help='also export an int8 ONNX file, calibrated on training images')
    # fmt: on
    add_reading(group)


def batch_size(text: str) -> int | str:
    if text == 'auto':
        return text
    try:
        return int(text)
    except ValueError as error:
        raise ArgumentTypeError(f'{text!r} is neither a number nor auto') from error


def run(config: str, **values: Any) -> None:
    set_steps(values)
    parser = make_parser()
    of_data = {name: values.pop(name) for name in names_in(parser, OF_DATA)}
    is_data, found = find_data(config, of_data)
    if not is_data:
        if not classify(config).has_weights:
            find_config(config)
        values['strict'] = of_data.pop('strict')
        what, fix = f'{config} is a config', '--cfg-options changes its values'
        reject(parser, of_data, tuple(of_data), what, fix)
        train_config(config, values)
        return
    what = f'{config} is a dataset'
    of_config = (*names_in(parser, OF_CONFIG), 'deterministic')
    reject(parser, values, of_config, what, 'train the config that is written')
    reject(parser, values, ('launcher',), what, '--nproc-per-node N starts torchrun itself')
    from .finish import check_exports, finish  # needs pycocotools

    of_data['found'] = found
    is_classes = found is not None and found.task is Task.CLASSES
    with run_console(values['verbose']) as hooks:
        options = take_finetune_options({**of_data, **values}, hooks)
        if is_classes:
            train_classifier(Path(config), options)
        else:
            finetune(Path(config), check_exports(options), finish)


def take_finetune_options(values: dict[str, Any], hooks: Sequence[RunConsole]) -> FinetuneOptions:
    """Remove the values for the training on a dataset, and return them as options."""
    return FinetuneOptions(
        **take(values, FinetuneOptions),
        overrides=Overrides(**take(values, Overrides)),
        reading=PrepareOptions(**take(values, PrepareOptions)),
        hooks=hooks,
    )


def set_steps(values: dict[str, Any]) -> None:
    """Choose the device, and move options that are settings of a config to ``cfg_options``."""
    settings: dict[str, Any] = {}
    check_numbers(values['lr'], values['workers'])
    check_seed(values['seed'])
    if values['device'] is not None:
        use_device(values['device'])
    dtype = values.pop('amp_dtype')
    if dtype and values['amp'] is False:
        raise UserError(f'--amp-dtype {dtype} is for mixed precision, and --no-amp is none')
    if dtype == ROUNDED:
        settings['amp_dtype'], values['amp'] = dtype, False
    elif values['amp'] or dtype:
        values['amp'] = True
        check_accelerator('--amp-dtype float16' if dtype else '--amp')
    for name, key in AS_SETTINGS.items():
        if (value := values.pop(name)) is not None:
            settings[key] = value
    values['cfg_options'] = {**settings, **values['cfg_options']}


def check_numbers(lr: float | None, workers: int | None) -> None:
    """Reject what mmengine would, before the data is read."""
    if lr is not None and not 0 < lr < math.inf:
        raise UserError(f'--lr is {lr}; give a number above 0')
    if workers is not None and not 0 <= workers <= MAX_WORKERS:
        raise UserError(f'--workers is {workers}; give 0 to {MAX_WORKERS:,}')


def train_config(config: str, values: dict[str, Any]) -> None:
    if values['strict'] and not values['check']:
        raise UserError('--strict is for the checks that --no-check skips: give one of them')
    if (lr := values.pop('lr')) is not None:
        values['cfg_options'] = {'optim_wrapper.optimizer.lr': lr, **values['cfg_options']}
    processes, options = values.pop('processes'), TrainOptions(**take(values, TrainOptions))
    if processes in (None, 1):
        with run_console(options.verbose) as options.hooks:
            runner = train(config, options)
        if reports():
            for hook in options.hooks:
                for line in hook.advice(runner):
                    print(line)
            print(next_step(runner.work_dir, runner.cfg))
        return
    if options.launcher != 'none':
        raise UserError(
            '--nproc-per-node starts them itself; with --launcher, torchrun or Slurm does'
        )
    train_in_processes(processes, config, options)
    print(next_step(*run_of(config, options)))


def next_step(work_dir: str | Path, config: Config) -> str:
    if config.get('test_dataloader'):
        return f'evaluate the best checkpoint: mmeffvit test {shlex.quote(str(work_dir))}'
    return (
        'the trained backbone is in its last checkpoint: train your config with `--cfg-options '
        'model.backbone.init_cfg.type=Pretrained model.backbone.init_cfg.checkpoint=FILE`'
    )
