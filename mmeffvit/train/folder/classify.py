"""Train a classifier on a folder of images per class: write, train and test a config."""

import re
import shlex
from dataclasses import asdict, replace
from pathlib import Path

from mmeffvit.config.beside import Code, assign, comment
from mmeffvit.config.datasets import SPLITS, evaluated_split
from mmeffvit.config.load import load_config
from mmeffvit.data.faults import IMAGE_CUT
from mmeffvit.data.prepare import prepare
from mmeffvit.errors import UserError
from mmeffvit.train.engine.evaluate import EvaluationOptions, evaluate
from mmeffvit.train.engine.metrics import in_percent, percent_text
from mmeffvit.utils.files import write_file
from mmeffvit.utils.messages import logger
from mmeffvit.utils.optional import require
from mmeffvit.utils.text import counted, listed
from mmeffvit.zoo.runs import best_checkpoint

from .advice import advice
from .base import Base, Start, find_start, known_weights
from .options import FinetuneOptions
from .pipelines import with_cut_images
from .recipe import Overrides, ema_momentum, spelled
from .run import trained
from .write_config import rate_lines, write_lines

CLASSIFIER = 'classifier_shvit_s1'  # without a teacher
UNLISTABLE = re.compile('[\n\r\ud800-\udfff]')  # in a list of names, one per line
USED = ('epochs', 'batch', 'lr')  # of the overrides
STEPS = 600  # minimum, in EPOCHS to MAX_EPOCHS
EPOCHS, MAX_EPOCHS = 30, 300
BATCH, ITERATIONS = 32, 4  # maximum batch size, minimum number of iterations per epoch
RATE, RATE_FROM_SCRATCH = 1e-4, 5e-4  # of AdamW at this batch size
SGD = 100  # the rate of SGD with momentum over the one of AdamW


def classify(path: Path, options: FinetuneOptions) -> dict[str, float]:
    """Train and test a classifier, and return the metrics of its best checkpoint.

    Raises:
        UserError: If the dataset, an option or the environment cannot work.
    """
    require('mmpretrain.models')
    options.overrides.check()
    check_options(options)
    base = Base.of(options.model or CLASSIFIER, allow_classifiers=True)
    if base.config.default_scope != 'mmpretrain' or base.config.model.type != 'ImageClassifier':
        raise UserError(
            f'{path} has a folder of images per class, and {base.name} is no classifier without a '
            f'teacher: choose one such as {CLASSIFIER}'
        )
    with trained(path, base, options, write_classifier) as (config, options):
        return evaluate_best(path, base, config, options)


def check_options(options: FinetuneOptions) -> None:
    """Reject options that would have no effect."""
    given = {name: v for name, v in asdict(options.overrides).items() if name not in USED}
    given |= dict(export=options.export, int8=options.int8)
    unset = {**asdict(Overrides()), 'export': None, 'int8': False}
    wrong = [spelled(name) for name, value in given.items() if value != unset[name]]
    if wrong or not isinstance(options.overrides.batch or 1, int):
        option = wrong[0] if wrong else '--batch auto'
        raise UserError(f'{option} is not for classifiers: change the config that is written')


def evaluate_best(
    path: Path, base: Base, config: Path, options: FinetuneOptions
) -> dict[str, float]:
    """Test the best checkpoint, and print its metrics and the next commands."""
    folder = config.parent
    best = best_checkpoint(folder / 'run').path
    run = EvaluationOptions(folder / 'result', options.cfg_options, verbose=options.verbose)
    _, metrics = evaluate(str(config), str(best), run)
    made = load_config(config, options.cfg_options)
    where = f'on the {evaluated_split(made)} split'
    title = f'\n{base.name} on {path.resolve().name}: {percent_text(metrics)} {where}'
    lines = [title, f'  best  {best}']
    lines += advice(made, in_percent(metrics), known_weights(base))
    logger.info('\n'.join(lines))
    logger.info(
        f'\nto test again:\n  mmeffvit test {shlex.quote(str(folder))}\n'
        'to train again, after changes of the config:\n'
        f'  mmeffvit train {shlex.join([str(config), "--work-dir", str(folder / "run2")])}'
    )
    return metrics


def write_classifier(path: Path, base: Base, config: Path, options: FinetuneOptions) -> None:
    """Write the lists of images and the config."""
    index = config.parent / 'index'
    reading = replace(options.reading, seed=options.seed)
    data, _ = prepare(path, index, reading)
    for split, pictures in data.splits.items():
        files = [str(picture.path.relative_to(data.root)) for picture in pictures]
        if wrong := [name for name in files if UNLISTABLE.search(name)]:
            raise UserError(f'{data.root} has names of images that a list of lines cannot have: '
                            f'{listed(wrong, 3)}; rename them')  # fmt: skip
        rows = zip(files, pictures, strict=True)
        text = ''.join(f'./{name} {picture.objects[0].label}\n' for name, picture in rows)
        write_file(index / f'{split}.txt', text)
    names = dict(
        data_root=f'{data.root}/',
        index=f'{index.absolute()}/',
        classes=data.classes,
        work_dir=f'{config.parent.absolute()}/run/',
    )
    start, number = find_start(base, options.weights), len(data.splits['train'])
    what = f'{counted(len(data.classes), "class")}, {counted(number, "image")} to train'
    are_cut = IMAGE_CUT in data.findings.counts
    cut = base if are_cut else None
    optimizer = base.config.optim_wrapper.optimizer.type
    lines = config_lines(
        number, options.overrides, start, cut, has_test='test' in data.splits, optimizer=optimizer
    )
    write_lines(config, base, data, what, names, lines)
    made = load_config(config)
    logger.info(
        f'{base.name} from {start.what}\n{counted(made.train_cfg.max_epochs, "epoch")}, batch size '
        f'{made.train_dataloader.batch_size}, learning rate '
        f'{made.optim_wrapper.optimizer.lr:g}\nconfig: {config}'
    )


def config_lines(
    number: int,
    overrides: Overrides,
    start: Start,
    cut: Base | None = None,
    *,
    has_test: bool = False,
    optimizer: str = 'AdamW',
) -> list[str]:
    """The config for a number of training images, after the names that it reads.

    ``cut`` is the model, if the last bytes of some images are missing.
    """
    batch = min(int(overrides.batch or min(BATCH, max(2, number // ITERATIONS))), number)
    if batch < 2:
        what = f'--batch is {overrides.batch}' if overrides.batch == 1 else 'there is one image'
        raise UserError(f'{what}, and a classifier with batch norm needs a batch size of 2 or more')
    iterations = number // batch
    epochs = overrides.epochs or min(MAX_EPOCHS, max(EPOCHS, -(-STEPS // iterations)))
    rate = (RATE_FROM_SCRATCH if start.is_scratch else RATE) * (batch / BATCH) ** 0.5
    rate *= SGD if optimizer == 'SGD' else 1
    interval = max(1, epochs // EPOCHS)
    workers = 2 if number > 1000 else 0
    loading = dict(batch_size=batch, num_workers=workers)
    pipelines = {}
    if cut is not None:
        pipelines = dict(train=cut.train_pipeline, val=cut.test_pipeline, test=cut.test_pipeline)
    train, val, test = (
        dict(
            type='CustomDataset',
            data_root=Code('data_root'),
            ann_file=Code(f"index + '{split}.txt'"),
            data_prefix=dict(img_path=''),
            metainfo=dict(classes=Code('classes')),
            **({'pipeline': with_cut_images(pipelines[split])} if pipelines else {}),
        )
        for split in SPLITS
    )
    sampler = dict(_delete_=True, type='DefaultSampler', shuffle=True)
    counts = dict(num_classes=Code('len(classes)'))
    average = dict(momentum=ema_momentum(epochs * iterations), update_buffers=True)
    best = dict(max_keep_ckpts=2, save_best='accuracy/top1', rule='greater')
    return [
        assign('train_dataloader', dict(loading, sampler=sampler, drop_last=True, dataset=train)),
        assign('val_dataloader', dict(loading, dataset=val)),
        assign('test_dataloader', dict(loading, dataset=test))
        if has_test
        else 'test_dataloader = val_dataloader',
        assign('val_evaluator', dict(topk=1)),
        'test_evaluator = val_evaluator',
        '',
        comment(f'from {start.what}'),
        assign('load_from', start.checkpoint),
        assign('model', dict(data_preprocessor=counts, head=counts)),
        '',
        *rate_lines(epochs, iterations, overrides.lr or float(f'{rate:.2g}')),
        assign('train_cfg', dict(max_epochs=Code('epochs'), val_interval=interval)),
        assign('custom_hooks', [dict(type='mmeffvit.EMAHook', **average)]),
        assign('default_hooks', dict(checkpoint=dict(interval=interval, **best))),
    ]
