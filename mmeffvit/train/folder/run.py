"""One command: a dataset is read, a config written, a model trained, and the result shown."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path

from mmeffvit.config.load import load_config
from mmeffvit.data.detect import Task, detect
from mmeffvit.data.prepare import prepare
from mmeffvit.errors import UserError
from mmeffvit.train.engine.options import RunOptions, TrainOptions, has_amp
from mmeffvit.train.engine.processes import train_in_processes
from mmeffvit.train.engine.train import train
from mmeffvit.utils.files import check_output, locked
from mmeffvit.utils.messages import logger
from mmeffvit.utils.text import counted

from .base import NONE, Base, find_start, known_weights
from .fit_batch import largest_batch
from .options import FinetuneOptions
from .recipe import (
    AUTO_BATCH,
    Overrides,
    Recipe,
    batch_limit,
    fit_rate,
    make_recipe,
    why_one_process,
)
from .resume import check_unused, digest, record, resumed
from .write_config import write_config

DETECTOR, SEGMENTOR = 'rtmdet_swiftformer_xs', 'segformer_swiftformer_xs_ade20k'
SCRATCH_SEGMENTOR = 'segformer_shvit_s1_lightpan_ade20k'  # docs/data.md has what was tried

# tests and exports what was trained, from the config, the options and pretrained weights to suggest
Finish = Callable[[Path, FinetuneOptions, str | None], dict[str, float]]


def finetune(path: Path, options: FinetuneOptions, finish: Finish) -> dict[str, float]:
    """Train on a dataset, from its folder to exported files.

    Args:
        path: See :func:`mmeffvit.data.prepare.prepare`.
        options: See :class:`FinetuneOptions`.
        finish: Called with the config after the run; it returns the metrics.

    Returns:
        The metrics of the best checkpoint.

    Raises:
        UserError: If the dataset, an option or the environment cannot work.
    """
    options.overrides.check()
    base = Base.of(options.model or default_model(path, options))
    with trained(path, base, options, write_run) as (config, options):
        return finish(config, options, known_weights(base))


@contextmanager
def trained(
    path: Path,
    base: Base,
    options: FinetuneOptions,
    write: Callable[[Path, Base, Path, FinetuneOptions], None],
) -> Iterator[tuple[Path, FinetuneOptions]]:
    """Write a config, unless a run is resumed, and train with it in its locked folder.

    Yields:
        The config, and the options, of which a resumed run keeps its own.
    """
    stem = path.resolve().stem if path.is_file() else path.resolve().name
    folder = check_output(options.work_dir or Path('work_dirs', f'{stem}_{base.name}'), folder=True)
    config = folder / f'{base.name}.py'
    if options.resume and not config.is_file():
        raise UserError(f'no run to resume: {config} does not exist')
    with locked(folder, 'a training run'):
        if any(folder.glob('run/*.pth')) and not options.resume:
            raise UserError(
                f'{folder} has a run already: continue it with --resume, or choose another '
                '--work-dir'
            )
        if options.resume:
            options = resumed(path, config, options)
        else:
            check_unused(config)
            options = replace(options, seed=options.seed or 0)
            record(path, config, options)  # first: a config without it would have the defaults
            write(path, base, config, options)
            record(path, config, options, digest(config))
        settings = {field.name: getattr(options, field.name) for field in fields(RunOptions)}
        settings |= dict(work_dir=folder / 'run', amp=uses_amp(options), resume=options.resume)
        run = TrainOptions(**settings)
        processes = load_config(config).get('processes', 1)
        if processes == 1:
            train(str(config), run)
        else:
            train_in_processes(processes, str(config), run)
        yield config, options


def uses_amp(options: FinetuneOptions) -> bool:
    if options.amp is None:
        return has_amp() and not options.cfg_options.get('amp_dtype')
    return options.amp


def default_model(path: Path, options: FinetuneOptions) -> str:
    """A small model for the data: a segmentor for label maps, else a detector."""
    reading = options.reading
    if options.reader is not None:
        return DETECTOR
    segmentor = SCRATCH_SEGMENTOR if options.weights == NONE else SEGMENTOR
    if reading.images is not None:
        return segmentor
    found = reading.found or detect(path, reading.format)
    options.reading = replace(reading, found=found)
    return segmentor if found.task is Task.LABEL_MAPS else DETECTOR


def write_run(path: Path, base: Base, config: Path, options: FinetuneOptions) -> None:
    """Write the index and the config."""
    reading = replace(
        options.reading,
        for_segmentor=base.is_segmentor,
        needs_masks=base.needs_masks,
        seed=options.seed,
    )
    overrides = options.overrides
    data, splits = prepare(path, config.with_name('index'), reading, options.reader)
    start = find_start(base, options.weights)
    if overrides.freeze is not None and start.is_scratch:
        raise UserError(f'--freeze needs pretrained weights, not {start.what}')
    pictures = data.splits['train']

    def write(overrides: Overrides) -> Recipe:
        recipe = make_recipe(
            base, pictures, overrides, from_scratch=start.is_scratch, num_val=splits['val'].count
        )
        write_config(config, base, data, splits, recipe, overrides, start, options.teaching)
        return recipe

    if overrides.batch == AUTO_BATCH:
        processes = write(replace(overrides, batch=None)).processes
        limit = batch_limit(len(pictures), processes)
        size = largest_batch(
            config, limit, processes, amp=uses_amp(options), cfg_options=options.cfg_options
        )
        overrides = replace(overrides, batch=size * processes, processes=processes)
    recipe = write(overrides)
    batch = recipe.batch * recipe.processes
    shared = f' in {counted(recipe.processes, "process")}' if recipe.processes > 1 else ''
    logger.info(
        f'{base.name} from {start.what}\n'
        f'{counted(recipe.epochs, "epoch")} of {counted(recipe.iterations, "step")}, '
        f'batch size {batch}{shared}, {recipe.image_size} pixels, '
        f'learning rate {recipe.rate:g}\nconfig: {config}'
    )
    if why := why_one_process(batch, overrides.processes, len(pictures)):
        logger.info(why)
    if recipe.from_scratch:
        logger.info(from_scratch_notice(base, recipe, overrides))


def from_scratch_notice(base: Base, recipe: Recipe, overrides: Overrides) -> str:
    """How training from scratch differs."""
    changes = ['all layers and norms are trained']
    batch = recipe.batch * recipe.processes * overrides.accumulate
    if not overrides.lr and recipe.rate == base.optimizer['lr'] > fit_rate(base, batch):
        changes.append('the learning rate of the base is kept, not lowered for the batch size')
    if base.last_pipeline and not recipe.has_mosaic:
        changes.append('there is no mosaic')
    return f'from scratch: {"; ".join(changes)}. More --epochs help more than anything else'
