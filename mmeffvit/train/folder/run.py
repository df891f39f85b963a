"""One command: a dataset is read, a config written, a model trained, and the result shown."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from mmengine.device import get_device

from mmeffvit.config.load import load_config
from mmeffvit.data.formats.masks import find as find_label_maps
from mmeffvit.data.prepare import PrepareOptions, Reader, prepare
from mmeffvit.deploy.formats.onnx.write import ExportOptions
from mmeffvit.deploy.formats.table import format_of
from mmeffvit.errors import UserError
from mmeffvit.train.engine.options import RunOptions
from mmeffvit.train.engine.processes import train_in_processes
from mmeffvit.train.engine.train import train
from mmeffvit.utils.files import check_output, locked
from mmeffvit.utils.messages import logger
from mmeffvit.utils.optional import require
from mmeffvit.utils.text import counted

from .base import AUTO, Base, find_start, known_weights
from .finish import finish
from .fit_batch import largest_batch
from .recipe import (
    AUTO_BATCH,
    Overrides,
    Recipe,
    batch_limit,
    fit_rate,
    make_recipe,
    why_one_process,
)
from .write_config import Teaching, write_config

DETECTOR, SEGMENTOR = 'rtmdet_swiftformer_xs', 'segformer_swiftformer_xs_ade20k'
DEFAULT_EXPORT = ('.onnx',)
NO_EXPORT = 'none'


@dataclass
class FinetuneOptions(RunOptions):
    """Options of a fine-tuning run, whose ``work_dir`` also gets the config, index and results.

    Args:
        model: Name of one of our configs; None chooses a small one for the data.
        reading: Options for reading the dataset.
        overrides: Numbers that replace the recipe's.
        weights: See :func:`mmeffvit.train.folder.base.find_start`.
        amp: Mixed precision with a loss scale; None enables it on accelerators, unless steps are in
            bfloat16.
        resume: Continue the run in the work dir, from a checkpoint or 'auto' for its latest.
        export: Suffixes of the files to export, or ['none']; None for ONNX, if its packages are
            installed.
        int8: Also write a file in int8, see :func:`mmeffvit.deploy.int8.quantize.quantize`.
        seed: Random seed of the validation split and of training.
        reader: Reads the dataset; by default the reader of its format.
        teaching: Distillation settings of a student.
    """

    model: str | None = None
    reading: PrepareOptions = field(default_factory=PrepareOptions)
    overrides: Overrides = field(default_factory=Overrides)
    weights: str = AUTO
    amp: bool | None = None
    resume: str | None = None
    export: Sequence[str] | None = None
    int8: bool = False
    seed: int = 0
    verbose: bool = False
    reader: Reader | None = None
    teaching: Teaching | None = None


def finetune(path: Path, options: FinetuneOptions) -> dict[str, float]:
    """Train on a dataset, from its folder to exported files.

    Args:
        path: See :func:`mmeffvit.data.prepare.prepare`.
        options: See :class:`FinetuneOptions`.

    Returns:
        The metrics of the best checkpoint.

    Raises:
        UserError: If the dataset, an option or the environment cannot work.
    """
    options.overrides.check()
    export = exportable(options.export)
    if options.int8 and '.onnx' not in export:
        raise UserError(
            f'--int8 quantizes the .onnx file, and --export is {" ".join(export) or NO_EXPORT}; '
            'add .onnx to --export, or leave --int8 out'
        )
    if options.int8:
        require('onnxruntime.quantization', '--int8')
    base = Base.of(options.model or default_model(path))
    with trained(path, base, options, write_run) as config:
        return finish(config, export, options, int8=options.int8, weights=known_weights(base))


@contextmanager
def trained(
    path: Path,
    base: Base,
    options: FinetuneOptions,
    write: Callable[[Path, Base, Path, FinetuneOptions], None],
) -> Iterator[Path]:
    """Write a config, unless a run is resumed, and train with it in its locked folder."""
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
        if not options.resume:
            write(path, base, config, options)
        run = replace(options, work_dir=folder / 'run')
        how = dict(amp=uses_amp(options), resume=options.resume)
        processes = load_config(config).get('processes', 1)
        if processes == 1:
            train(str(config), run, **how)
        else:
            train_in_processes(processes, str(config), run, **how)
        yield config


def uses_amp(options: FinetuneOptions) -> bool:
    if options.amp is None:
        return get_device() != 'cpu' and options.cfg_options.get('step_format') != 'bfloat16'
    return options.amp


def exportable(suffixes: Sequence[str] | None) -> list[str]:
    """The formats to export at the end, whose packages must be installed before training."""
    if suffixes == [NO_EXPORT]:
        return []
    try:
        for suffix in suffixes or DEFAULT_EXPORT:
            format_of(Path(f'model{suffix}'), ExportOptions(shape=(64, 64), batch=1))
    except UserError as error:
        if suffixes is not None:
            raise
        logger.info(f'nothing will be exported: {error}')
        return []
    return list(suffixes or DEFAULT_EXPORT)


def default_model(path: Path) -> str:
    """A small model for the data: a segmentor for label maps alone, else a detector."""
    is_other = any(path.rglob('*.xml')) or any(path.rglob('*.json')) or any(path.glob('*.y*ml'))
    return DETECTOR if is_other or find_label_maps(path.absolute()) is None else SEGMENTOR


def write_run(path: Path, base: Base, config: Path, options: FinetuneOptions) -> None:
    """Write the index and the config."""
    reading = replace(
        options.reading,
        for_segmentor=base.is_segmentor,
        needs_masks=base.needs_masks,
        seed=options.seed,
    )
    overrides = options.overrides
    if overrides.balance and base.is_segmentor:
        raise UserError('--balance repeats images of rare classes for detectors, not segmentors')
    data, splits = prepare(path, config.with_name('index'), reading, options.reader)
    start = find_start(base, options.weights)
    if overrides.freeze is not None and start.is_scratch:
        raise UserError(f'--freeze needs pretrained weights, not {start.what}')
    pictures = data.splits['train']

    def write(overrides: Overrides) -> Recipe:
        recipe = make_recipe(base, pictures, overrides, from_scratch=start.is_scratch)
        write_config(config, base, data, splits, recipe, overrides, start, options.teaching)
        return recipe

    if overrides.batch == AUTO_BATCH:
        processes = write(replace(overrides, batch=None)).processes
        limit = batch_limit(len(pictures), processes)
        size = largest_batch(config, limit, processes, amp=uses_amp(options))
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
    if why := why_one_process(batch, overrides.processes):
        logger.info(why)
    if recipe.from_scratch:
        logger.info(from_scratch_notice(base, recipe))


def from_scratch_notice(base: Base, recipe: Recipe) -> str:
    """How training from scratch differs."""
    changes = ['all layers and norms are trained']
    if recipe.rate > fit_rate(base, recipe.batch * recipe.processes):
        changes.append('the learning rate of the base is kept, not lowered for the batch size')
    if base.last_pipeline and not recipe.has_mosaic:
        changes.append('there is no mosaic')
    return f'from scratch: {"; ".join(changes)}. More --epochs help more than anything else'
