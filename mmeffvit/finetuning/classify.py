"""Train a classifier on a folder of images per class: write, train and test a config."""

import json
import shlex
from dataclasses import asdict, replace
from pathlib import Path

from mmeffvit.config.beside import comment, literal
from mmeffvit.config.load import load_config
from mmeffvit.data.class_folders import read
from mmeffvit.data.prepare import prepare
from mmeffvit.data.records import DataSet
from mmeffvit.engine.evaluate import evaluate
from mmeffvit.engine.metrics import in_percent
from mmeffvit.engine.options import RunOptions
from mmeffvit.errors import UserError
from mmeffvit.utils.files import write_file
from mmeffvit.utils.messages import logger
from mmeffvit.utils.optional import require
from mmeffvit.utils.text import counted
from mmeffvit.zoo.runs import best_checkpoint

from .base import Base, Start, find_start, known_weights
from .finish import advice
from .recipe import WARM_UP, Overrides, ema_momentum
from .run import FinetuneOptions, trained
from .write_config import DATA, base_line

CLASSIFIER = 'classifier_shvit_s1'  # without a teacher
USED = ('epochs', 'batch')  # of the overrides
STEPS = 600  # minimum, in EPOCHS to MAX_EPOCHS
EPOCHS, MAX_EPOCHS = 30, 300
BATCH, ITERATIONS = 32, 4  # maximum batch size, minimum number of iterations per epoch
RATE, RATE_FROM_SCRATCH = 1e-4, 5e-4  # at this batch size

CONFIG = '''"""{name}: {classes}, {images} to train."""

{base_line}

from mmeffvit.config.beside import read_beside

data_root, index, classes, work_dir = read_beside(
    'data.json', 'data_root', 'index', 'classes', 'work_dir'
)
data = dict(
    type='CustomDataset',
    data_root=data_root,
    data_prefix=dict(img_path=''),
    metainfo=dict(classes=classes),
)
loading = dict(batch_size={batch}, num_workers={workers}, persistent_workers={persistent})
train_dataloader = dict(
    sampler=dict(_delete_=True, type='DefaultSampler', shuffle=True),
    dataset=dict(ann_file=index + 'train.txt', **data),
    **loading,
)
val_dataloader = dict(dataset=dict(ann_file=index + 'val.txt', **data), **loading)
test_dataloader = val_dataloader
val_evaluator = dict(topk=1)
test_evaluator = val_evaluator

{what}
load_from = {load_from}
model = dict(
    data_preprocessor=dict(num_classes=len(classes)), head=dict(num_classes=len(classes))
)

epochs = {epochs}
iterations = {iterations}  # of an epoch
train_cfg = dict(max_epochs=epochs, val_interval={interval})
optim_wrapper = dict(optimizer=dict(lr={rate:g}))
param_scheduler = [
    dict(type='LinearLR', start_factor={start_factor:g}, by_epoch=True, begin=0, end={warm_up}),
    dict(
        type='CosineAnnealingLR',
        by_epoch=True,
        begin={warm_up},
        end={last},
        T_max={cosine},
        eta_min={minimum:g},
    ),
]
custom_hooks = [dict(type='mmeffvit.EMAHook', momentum={momentum:g}, update_buffers=True)]
default_hooks = dict(
    checkpoint=dict(
        interval={interval}, max_keep_ckpts=2, save_best='accuracy/top1', rule='greater'
    )
)
'''


def classify(path: Path, options: FinetuneOptions) -> dict[str, float]:
    """Train and test a classifier.

    Args:
        path: The folder.
        options: Options; those of exported files and of a teacher do not apply.

    Returns:
        The metrics of the best checkpoint.

    Raises:
        UserError: If the dataset, an option or the environment cannot work.
    """
    require('mmpretrain')
    options.overrides.check()
    check_options(options)
    base = Base.of(options.model or CLASSIFIER, allow_classifiers=True)
    if base.config.default_scope != 'mmpretrain' or base.config.model.type != 'ImageClassifier':
        raise UserError(
            f'{path} has a folder of images per class, and {base.name} is no classifier without a '
            f'teacher: choose one such as {CLASSIFIER}'
        )
    with trained(path, base, options, write_run) as config:
        return evaluate_best(path, base, config, options)


def check_options(options: FinetuneOptions) -> None:
    """Reject options that would have no effect."""
    given = {name: v for name, v in asdict(options.overrides).items() if name not in USED}
    given |= dict(export=options.export)
    unset = {**asdict(Overrides()), 'export': None}
    wrong = [name.replace('_', '-') for name, value in given.items() if value != unset[name]]
    if wrong or not isinstance(options.overrides.batch or 1, int):
        option = wrong[0] if wrong else 'batch auto'
        raise UserError(f'--{option} is not for classifiers: change the config that is written')


def evaluate_best(
    path: Path, base: Base, config: Path, options: FinetuneOptions
) -> dict[str, float]:
    """Test the best checkpoint, and print its metrics and the next commands."""
    folder = config.parent
    best = best_checkpoint(folder / 'run').path
    run = RunOptions(folder / 'result', options.cfg_options, verbose=options.verbose)
    _, metrics = evaluate(str(config), str(best), run)
    found = ', '.join(f'{key} {value} %' for key, value in in_percent(metrics).items())
    lines = [f'\n{base.name} on {path.resolve().name}: {found}', f'  best  {best}']
    lines += advice(load_config(config), in_percent(metrics), known_weights(base))
    logger.info('\n'.join(lines))
    logger.info(
        f'\nto test again:\n  mmeffvit test {shlex.quote(str(folder))}\n'
        'to train again, after changes of the config:\n'
        f'  mmeffvit train {shlex.join([str(config), "--work-dir", str(folder / "run2")])}'
    )
    return metrics


def write_run(path: Path, base: Base, config: Path, options: FinetuneOptions) -> None:
    """Write the lists of images and the config."""
    index = config.parent / 'index'
    reading = replace(options.reading, seed=options.seed)
    data, _ = prepare(path, index, reading, lambda root, _: read(root))
    for split, pictures in data.splits.items():
        rows = (f'./{p.path.relative_to(data.root)} {p.objects[0].label}\n' for p in pictures)
        write_file(index / f'{split}.txt', ''.join(rows))
    values = dict(
        data_root=f'{data.root}/',
        index=f'{index.absolute()}/',
        classes=data.classes,
        work_dir=f'{config.parent.absolute()}/run/',
    )
    write_file(config.with_name(DATA), json.dumps(values, indent=1))
    start = find_start(base, options.weights)
    write_file(config, config_text(base, data, options.overrides, start))
    made = load_config(config)
    logger.info(
        f'{base.name} from {start.what}\n{counted(made.train_cfg.max_epochs, "epoch")}, batch size '
        f'{made.train_dataloader.batch_size}, learning rate '
        f'{made.optim_wrapper.optimizer.lr:g}\nconfig: {config}'
    )


def config_text(base: Base, data: DataSet, overrides: Overrides, start: Start) -> str:
    number = len(data.splits['train'])
    batch = min(int(overrides.batch or min(BATCH, max(2, number // ITERATIONS))), number)
    iterations = number // batch
    epochs = overrides.epochs or min(MAX_EPOCHS, max(EPOCHS, -(-STEPS // iterations)))
    rate = (RATE_FROM_SCRATCH if start.is_scratch else RATE) * (batch / BATCH) ** 0.5
    warm_up = max(1, round(WARM_UP * epochs))
    workers = 2 if number > 1000 else 0
    return CONFIG.format(
        name=base.name,
        base_line=base_line(base.name),
        classes=counted(len(data.classes), 'class'),
        images=counted(number, 'image'),
        batch=batch,
        workers=workers,
        persistent=workers > 0,
        what=comment(f'from {start.what}'),
        load_from=literal(start.checkpoint),
        epochs=epochs,
        iterations=iterations,
        interval=max(1, epochs // EPOCHS),
        rate=float(f'{rate:.2g}'),
        warm_up=warm_up,
        start_factor=0.01 if epochs > warm_up else 1.0,  # of a single epoch: no warm-up
        last=max(epochs, warm_up + 1),
        cosine=max(1, epochs - warm_up),
        minimum=float(f'{rate / 100:.2g}'),
        momentum=ema_momentum(epochs * iterations),
    )
