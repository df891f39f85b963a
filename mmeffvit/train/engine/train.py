"""Training, safe to interrupt."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from operator import ge, le
from pathlib import Path

from mmengine.config import Config
from mmengine.hooks import CheckpointHook
from mmengine.runner import Runner
from torch import Tensor

from mmeffvit.config.build import without_weights
from mmeffvit.config.load import ALL
from mmeffvit.errors import CheckpointError, UserError
from mmeffvit.models.backbone import log_report
from mmeffvit.models.checkpoints import Checkpoint, load_into, open_checkpoint
from mmeffvit.models.checkpoints.checkpoint import require_run
from mmeffvit.models.checkpoints.load import resize_backbone, wrong_kinds
from mmeffvit.train.checks.classes import check_heads
from mmeffvit.train.checks.config import stop_at_faults
from mmeffvit.train.checks.data import check_data, repair_data
from mmeffvit.train.checks.run import check_batches, check_paths, load_checked
from mmeffvit.utils.files import locked
from mmeffvit.utils.interrupts import is_first_process
from mmeffvit.utils.messages import logger
from mmeffvit.utils.text import counted, listed
from mmeffvit.zoo.identify import naming
from mmeffvit.zoo.runs import latest_checkpoint, saved_checkpoints
from mmeffvit.zoo.source import Source, find_source

from .checkpoint_loader import handed_over
from .checkpoints import KeepingCheckpointHook, ValidationHook
from .launcher import BACKEND, build_runner, leave_process_group, unwrap
from .options import TrainOptions, enable_lr_scaling, prepare, use_mixed_precision
from .resume import ResumableRandomnessHook, ScheduleHook, check_resumable, resumable
from .step_format import StepFormatHook
from .user_errors import building, check_optimizer, name_unreadable, prepare_metrics, run

LOG_WINDOWS = 50  # minimum number of windows that the loss of a run is averaged over


def train(config_path: str, options: TrainOptions) -> Runner:
    """Train as specified by a config of mmdet, mmseg or mmpretrain.

    Args:
        config_path: The config file, or a saved model or a run to start from.
        options: See :class:`TrainOptions`.

    Returns:
        The runner, after training.

    Raises:
        UserError: If the config, the data, the checkpoint or the environment cannot work.
        mmeffvit.models.checkpoints.CheckpointError: If a checkpoint cannot be read.
    """
    source = find_source(config_path, options.cfg_options, ALL)
    config = source.config
    work_dir = prepare(config, options)
    check_paths(config, ('train', 'val'))
    if options.amp:
        use_mixed_precision(config)
    if options.auto_scale_lr:
        enable_lr_scaling(config)
    start = choose_start(source, options.resume)
    if saved_checkpoints(work_dir) and not config.resume:
        raise UserError(
            f'{work_dir} has a run already, whose checkpoints would be overwritten: continue it '
            'with --resume, or choose another --work-dir'
        )
    if start is not None and (start.release or start is source.own):
        # it replaces all weights but those of a teacher: none is downloaded
        without_weights(config.model, teachers=False)
    is_first = is_first_process()  # it locks the work dir for all
    lock = locked(work_dir, 'a training run') if is_first else nullcontext()
    with lock, options.output(config.work_dir):
        if options.check:
            repair_data(config, Path(config.work_dir, 'data'), strict=options.strict)
        else:  # nothing is opened that would hang or crash
            check_data(config, ('train', 'val'))
        runner = build_runner(config)
        runner.register_custom_hooks(options.hooks)
        if options.check:
            stop_at_faults(config)  # after the runner has started the process group
        make_interruptible(runner)
        layout, dtype = config.get('channels_last'), config.get('amp_dtype')
        runner.register_hook(StepFormatHook(layout, dtype))
        if config.resume:
            runner.register_hook(ScheduleHook())
        model = unwrap(runner.model)
        check_optimizer(config)
        with building(config):
            loops = dict(train=runner.train_loop, val=runner.val_loop)
        log = runner.log_processor  # of short runs over fewer iterations, or curves would be flat
        log.window_size = min(log.window_size, max(1, runner.max_iters // LOG_WINDOWS))
        for split, loop in loops.items():
            if loop is not None:
                check_batches(loop.dataloader, split)
                check_heads(model, loop.dataloader.dataset, split)
                name_unreadable(loop.dataloader.dataset)
        if runner.val_loop is not None:
            prepare_metrics(runner.val_loop.evaluator, config.work_dir)
        first = [check_start(runner, start, config)] if start is not None else []
        with resumable(work_dir), handed_over(*first):
            run(runner, runner.train, config)
        leave_process_group()
    return runner


def choose_start(source: Source, resume: str | None) -> Checkpoint | None:
    """The checkpoint that training starts from, which the config is set to."""
    config = source.config
    resume = resume or (config.get('resume') and (config.get('load_from') or 'auto'))
    start = open_resumed(config, resume) if resume else None
    config.resume = start is not None
    if start is None:
        start = open_checkpoint(config.load_from) if config.get('load_from') else source.own
    config.load_from = start.source if start is not None else None
    return start


def open_resumed(config: Config, resume: str) -> Checkpoint | None:
    """The checkpoint of the run to resume, whose seed the config takes; None to start a new run."""
    work_dir = Path(config.work_dir)
    start = latest_checkpoint(work_dir) if resume == 'auto' else open_checkpoint(resume)
    if start is None and saved_checkpoints(work_dir):
        raise UserError(
            f'no checkpoint in {work_dir} can be resumed: move them away, or choose another '
            '--work-dir; a new run would overwrite them'
        )
    if start is None:
        logger.info(f'no checkpoint to resume in {work_dir}: starting from the beginning')
        return None
    if start.original is not None and 'message_hub' in start.sections:
        start = start.original  # a run of timm's model, whose keys are those of a release
    if start.release:
        raise UserError(
            f'{start} is a released model, not a checkpoint of a run: there is nothing to resume. '
            f'Start from it with --cfg-options load_from={start}'
        )
    require_run(start)
    seed = start.meta.get('seed')
    if config.randomness.get('seed') is None and seed is not None:
        config.randomness['seed'] = seed  # the order of the data follows from it
    return start


def check_start(runner: Runner, start: Checkpoint, config: Config) -> Checkpoint:
    """Check the checkpoint that training starts from against the model.

    Returns:
        The checkpoint for mmengine: of a released model, the tensors that fit; of another
        resolution, resized.
    """
    model = unwrap(runner.model)
    if config.resume:
        load_checked(model, start, runner.train_dataloader.dataset, 'train')
        check_resumable(runner, start)
        return start
    if start.release:  # of other sizes, mmengine would load it in part
        with naming():
            report = load_into(model, start, new_classes=True)
        log_report(report)
        state = model.state_dict()
        return replace(start, weights={key: state[key].clone() for key in report.loaded})
    if resized := resize_backbone(model, start):
        logger.info(f'{start}: {listed(resized)} resized to the resolution of the model')
        grids = {key: grid for key, grid in start.grids.items() if key not in resized}
        start = replace(start, weights={**start.weights, **resized}, grids=grids)
    check_weights(start, model.state_dict())
    return start


def check_weights(start: Checkpoint, target: Mapping[str, Tensor]) -> None:
    """Check weights that mmengine loads as far as they fit, and log how many do."""
    wrong = wrong_kinds(start.weights, target)
    if wrong:
        raise CheckpointError(f'{start} does not fit the model: {listed(wrong, 4)}')
    fits = [k for k, v in start.weights.items() if k in target and v.shape == target[k].shape]
    if not any(start.weights[key].ndim for key in fits):  # counters fit any model
        raise CheckpointError(
            f'{start} has none of the tensors of the model: its first keys are '
            f'{listed(map(repr, start.weights), 3)}. Weights of a backbone alone belong into '
            'model.backbone.init_cfg'
        )
    if len(fits) < len(target):
        logger.info(
            f'{start}: {len(fits)} of {counted(len(target), "tensor")} of the model are loaded, '
            'the others are randomly initialized'
        )


def make_interruptible(runner: Runner) -> None:
    """Save atomically, always keep a checkpoint, and make randomness resumable.

    Of equal metrics the last is the best: in the first epochs they are often all zero. The config
    saved in the work dir stays the user's.
    """
    runner.register_hook(ResumableRandomnessHook())
    runner.register_hook(ValidationHook())
    for hook in runner.hooks:
        if not isinstance(hook, CheckpointHook):
            continue
        if type(hook) is CheckpointHook:  # a subclass of the user's stays
            hook.__class__ = KeepingCheckpointHook
        if not hook.backend_args and '://' not in str(hook.out_dir):
            hook.backend_args = dict(backend=BACKEND)
        if hook.max_keep_ckpts == 1:
            logger.warning(
                'max_keep_ckpts=1 would delete the last checkpoint before saving: keeping 2'
            )
            hook.max_keep_ckpts = 2
        if hook.save_best is not None:
            hook.rule_map = dict(greater=ge, less=le)  # for metrics that are not known yet
            for key, is_better in hook.is_better_than.items():
                hook.is_better_than[key] = ge if is_better(1, 0) else le
