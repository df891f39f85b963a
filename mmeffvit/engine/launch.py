"""From a config file to a run of mmengine's runner."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.hooks import CheckpointHook
from mmengine.logging import print_log
from mmengine.model import BaseTTAModel, is_model_wrapper
from mmengine.registry import RUNNERS
from mmengine.runner import Runner
from torch import nn

from mmeffvit.checkpoints.models import fit, release_of
from mmeffvit.checkpoints.read import weights_in
from mmeffvit.checks.config.check import stop_at_faults
from mmeffvit.checks.run import check_checkpoint, check_classes, check_data, check_kinds
from mmeffvit.config.build import without_weights
from mmeffvit.config.datasets import datasets_of
from mmeffvit.config.load import ALL, resolve_work_dir
from mmeffvit.errors import CheckpointError, UserError
from mmeffvit.utils.files import check_output, locked, remove_partial
from mmeffvit.zoo.hub import open_model
from mmeffvit.zoo.weights import weights_of

from .checkpoint_backend import BACKEND
from .checkpoint_loader import load_guarded
from .dump import dump_results
from .hooks import BareWeightsHook, ResumableRandomnessHook
from .metrics import PercentHook
from .mistakes import (
    building,
    check_optimizer,
    complete_annotations,
    name_unreadable,
    restrict_annotations,
    run,
)
from .resume import (
    check_resumable,
    check_sections,
    latest_checkpoint,
    resumable,
    saved_checkpoints,
)

LAUNCHERS = ('none', 'pytorch', 'slurm', 'mpi')
LOG_WINDOWS = 50  # that a run's loss is averaged over, at least


@dataclass
class RunOptions:
    """Command-line options of every run.

    Args:
        work_dir: Folder of the log and the checkpoints; see :func:`resolve_work_dir`.
        cfg_options: Dotted keys and values that replace the config's.
        launcher: Who started the processes, one of ``LAUNCHERS``.
        seed: Seed of everything random; None takes the config's.
        deterministic: Use deterministic algorithms only.
    """

    work_dir: str | Path | None = None
    cfg_options: Mapping[str, Any] = field(default_factory=dict)
    launcher: str = 'none'
    seed: int | None = None
    deterministic: bool = False


def train(
    config_path: str,
    options: RunOptions,
    *,
    amp: bool = False,
    resume: str | None = None,
    auto_scale_lr: bool = False,
    check: bool = True,
) -> Runner:
    """Train as specified by a config of mmdet, mmseg or mmpretrain.

    Args:
        config_path: The config file, or a saved model to start from.
        options: See :class:`RunOptions`.
        amp: Mixed precision, on an accelerator.
        resume: A checkpoint to resume, or 'auto' for the latest valid one in the work dir.
        auto_scale_lr: Scale the learning rate with the total batch size.
        check: Look for faults of the config first, see :mod:`mmeffvit.checks.config.check`.

    Returns:
        The runner, after training.

    Raises:
        UserError: If the config, the data, the checkpoint or the environment cannot work.
        mmeffvit.checkpoints.CheckpointError: If a checkpoint cannot be read.
    """
    config, own = open_model(config_path, options.cfg_options, ALL)
    config.load_from = config.get('load_from') or own
    prepare(config, options)
    work_dir = check_output(config.work_dir, folder=True)
    check_data(config, ('train', 'val'))
    if amp:
        use_mixed_precision(config)
    if auto_scale_lr:
        enable_lr_scaling(config)
    if resume or config.get('resume'):
        set_resume(config, resume or config.get('load_from') or 'auto')
    start = read_run_checkpoint(config.load_from) if config.get('load_from') else None
    if release_of(start) or (own and config.load_from == own):
        # it replaces all but a teacher's: none of them is fetched
        without_weights(config.model, teachers=False)
    # processes that outlive an epoch would keep random states that no resumed run has
    config.train_dataloader.persistent_workers = False
    with owned(work_dir):
        runner = build_runner(config)
        if check:
            stop_at_faults(config)  # after the runner has started the process group
        make_interruptible(runner)
        model = unwrap(runner.model)
        check_optimizer(config)
        with building(config):
            loops = dict(train=runner.train_loop, val=runner.val_loop)
        fit_log_window(runner)
        for split, loop in loops.items():
            if loop is not None:
                check_classes(model, loop.dataloader.dataset, split)
                name_unreadable(loop.dataloader.dataset)
        if runner.val_loop is not None:
            complete_annotations(runner.val_loop.evaluator)
        if start is not None:
            check_start(runner, start, config)
        with resumable(work_dir):
            run(runner, runner.train, config)
        leave_process_group()
    return runner


def check_start(runner: Runner, start: Mapping[str, Any], config: Config) -> None:
    """Compare the checkpoint that training starts from with the model, and to resume all of it.

    Raises:
        CheckpointError: If weights are of another kind, or the run cannot be resumed from it.
        UserError: If the run to resume was one of another model or of other classes.
    """
    model = unwrap(runner.model)
    if config.get('resume'):
        check_sections(start, config.load_from)
        check_checkpoint(model, start, config.load_from, runner.train_dataloader.dataset, 'train')
        check_resumable(runner, start, config.load_from)
        return
    check_kinds(model, start, config.load_from)
    if release_of(start):  # of other sizes, mmengine would load it in part
        _, report = fit(model, start, config.load_from, new_classes=True)
        print_log(str(report), logger='current')


@contextmanager
def owned(work_dir: Path) -> Iterator[None]:
    """Lock the work dir against other runs, and remove partial files of killed runs."""
    if int(os.environ.get('RANK', 0)):  # the first process holds it for all
        yield
        return
    with locked(work_dir, 'a training run'):
        remove_partial(work_dir)
        yield


def evaluate(
    config_path: str,
    checkpoint: str | None,
    options: RunOptions,
    *,
    show_dir: str | Path | None = None,
    out: str | Path | None = None,
    tta: bool = False,
) -> tuple[Runner, dict[str, float]]:
    """Evaluate a checkpoint as specified by a config of mmdet, mmseg or mmpretrain.

    Args:
        config_path: The config file, or a saved model, as a folder or as ``hf://OWNER/NAME``.
        checkpoint: A checkpoint of a run with this config, or a released model of it; None takes
            the saved one, or the one that is released.
        options: See :class:`RunOptions`.
        show_dir: Folder for pictures of the predictions.
        out: File for the predictions, ``.pkl``.
        tta: Test-time augmentation: merge predictions on the image and on its horizontal flip.

    Returns:
        The runner, with the checkpoint in its model, and the metrics by name.

    Raises:
        UserError: If the config, the data or the environment cannot work, or the checkpoint is of
            another model or of other classes.
        mmeffvit.checkpoints.CheckpointError: If the checkpoint cannot be read.
    """
    if out is not None:
        check_output(out, '.pkl', '.pickle')
    runner, config = open_test(config_path, checkpoint, options, show_dir=show_dir, tta=tta)
    if out is not None:
        runner.test_evaluator.metrics.append(dump_results(config.default_scope, str(out)))
    metrics = run(runner, runner.test, config)
    leave_process_group()
    return runner, metrics


def open_test(
    config_path: str,
    checkpoint: str | None,
    options: RunOptions,
    *,
    show_dir: str | Path | None = None,
    tta: bool = False,
    max_images: int | None = None,
) -> tuple[Runner, Config]:
    """Check and prepare a test: the runner, with the weights in its model, and the config.

    Args:
        config_path: See :func:`evaluate`.
        checkpoint: See :func:`evaluate`.
        options: See :class:`RunOptions`.
        show_dir: See :func:`evaluate`.
        tta: See :func:`evaluate`.
        max_images: Test only so many images, the first ones of every data set.

    Raises:
        UserError: See :func:`evaluate`.
        mmeffvit.checkpoints.CheckpointError: If the checkpoint cannot be read.
    """
    config, own = open_model(config_path, options.cfg_options, ALL)
    prepare(config, options)
    check_output(config.work_dir, folder=True)
    if show_dir:
        check_output(show_dir, folder=True)
    check_data(config, ('test',))
    checkpoint = checkpoint or own or weights_of(config_path)
    content = read_run_checkpoint(checkpoint)
    if show_dir:
        draw_predictions(config, show_dir)
    if tta:
        augment_tests(config)
    for dataset in datasets_of(config, 'test') if max_images is not None else ():
        dataset['indices'] = max_images
    config.load_from = checkpoint
    runner = build_runner(config)
    model = unwrap(runner.model)
    with building(config):
        dataset = runner.test_loop.dataloader.dataset
    name_unreadable(dataset)
    complete_annotations(runner.test_loop.evaluator)
    if max_images is not None:
        restrict_annotations(runner.test_loop.evaluator, dataset)
    check_classes(model, dataset, 'test')
    check_checkpoint(model, content, checkpoint, dataset)
    return runner, config


def prepare(config: Config, options: RunOptions) -> None:
    """Apply the options to the config, in place, and start the process group."""
    config.work_dir = str(resolve_work_dir(config, options.work_dir))
    config.launcher = options.launcher
    randomness = dict(config.get('randomness') or dict(seed=None))
    if options.seed is not None:
        randomness['seed'] = options.seed
    if options.deterministic:
        randomness['deterministic'] = True
    config.randomness = randomness
    if options.launcher != 'none':
        prepare_launcher(config, options.launcher)


def prepare_launcher(config: Config, launcher: str) -> None:
    """Check how the processes were started; on a machine without accelerators use gloo.

    The runner starts its process group itself, but only where there is an accelerator.
    """
    if launcher == 'pytorch' and 'RANK' not in os.environ:
        raise UserError(
            '--launcher pytorch needs processes started by torchrun: '
            '`torchrun --nproc_per_node N tools/train.py CONFIG --launcher pytorch`'
        )
    if get_device() != 'cpu':
        return
    if launcher != 'pytorch':
        raise UserError(
            f'--launcher {launcher} needs accelerators and there are none here; start CPU '
            'processes with torchrun and --launcher pytorch'
        )
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group('gloo')
    wrapper = dict(type='MMDistributedDataParallel', device_ids=None, broadcast_buffers=False)
    wrapper['find_unused_parameters'] = config.get('find_unused_parameters', False)
    config.setdefault('model_wrapper_cfg', wrapper)


def leave_process_group() -> None:
    """Wait for the other processes and destroy the group: leaving early would break the others."""
    if torch.distributed.is_initialized():
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


def build_runner(config: Config) -> Runner:
    """Build the runner.

    Raises:
        UserError: If a name is not registered or an argument does not fit its class.
    """
    with building(config):
        build = RUNNERS.build if 'runner_type' in config else Runner.from_cfg
        runner = build(config)
    runner.register_hook(PercentHook())
    runner.register_hook(BareWeightsHook())
    return runner


def unwrap(model: nn.Module) -> nn.Module:
    """The model inside wrappers for distributed training or test-time augmentation."""
    while is_model_wrapper(model) or isinstance(model, BaseTTAModel):
        model = model.module
    return model


def check_accelerator(option: str) -> None:
    """Check that there is a device other than the CPU, for an option that is of no use on it.

    Raises:
        UserError: If there is none.
    """
    if get_device() == 'cpu':
        raise UserError(f'{option} needs an accelerator; there is none here')


def use_mixed_precision(config: Config) -> None:
    check_accelerator('--amp')
    kind = config.optim_wrapper.get('type', 'OptimWrapper')
    if 'Amp' not in kind:  # ours comes in both kinds as well
        config.optim_wrapper.type = kind.replace('OptimWrapper', 'AmpOptimWrapper')
    config.optim_wrapper.loss_scale = 'dynamic'


def enable_lr_scaling(config: Config) -> None:
    if 'base_batch_size' not in (config.get('auto_scale_lr') or {}):
        raise UserError(
            f'--auto-scale-lr needs auto_scale_lr = dict(base_batch_size=N) in {config.filename}, '
            'N the images per step that its learning rate is meant for'
        )
    config.auto_scale_lr.enable = True


def read_run_checkpoint(path: str | Path) -> Mapping[str, Any]:
    """Read a checkpoint of a run or a release, before the run starts.

    Raises:
        mmeffvit.checkpoints.CheckpointError: If it cannot be read, or holds no state dict.
    """
    content = load_guarded(str(path))
    if not isinstance(content, Mapping) or not weights_in(content):
        raise CheckpointError(f'{path} holds no state dict, but a {type(content).__name__}')
    return content


def set_resume(config: Config, resume: str) -> None:
    """Point the runner at the checkpoint to resume.

    Raises:
        UserError: If the work dir has checkpoints and none can be resumed.
    """
    path = resume
    if resume == 'auto':
        work_dir = Path(config.work_dir)
        path = latest_checkpoint(work_dir)
        if path is None and saved_checkpoints(work_dir):
            raise UserError(
                f'no checkpoint in {work_dir} can be resumed: move them away, or choose another '
                '--work-dir; a new run would overwrite them'
            )
        if path is None:
            print(f'no checkpoint to resume in {work_dir}: starting from the beginning')
            config.resume = False
            return
    content = read_run_checkpoint(path)
    if release_of(content):
        raise UserError(
            f'{path} is a released model, not a checkpoint of a run: there is nothing to resume. '
            f'Start from it with --cfg-options load_from={path}'
        )
    meta = content.get('meta')
    seed = meta.get('seed') if isinstance(meta, Mapping) else None
    if config.randomness.get('seed') is None and seed is not None:
        config.randomness['seed'] = seed  # the order of the data follows from it
    config.load_from = str(path)
    config.resume = True


def make_interruptible(runner: Runner) -> None:
    """Save atomically, never have fewer than one checkpoint, and make randomness resumable.

    This changes the runner, not its config: the config saved in the work dir stays the user's.
    """
    runner.register_hook(ResumableRandomnessHook())
    for hook in runner.hooks:
        if not isinstance(hook, CheckpointHook):
            continue
        if not hook.backend_args and '://' not in str(hook.out_dir):
            hook.backend_args = dict(backend=BACKEND)
        if hook.max_keep_ckpts == 1:
            runner.logger.warning(
                'max_keep_ckpts=1 would delete the last checkpoint before saving: keeping 2'
            )
            hook.max_keep_ckpts = 2


def fit_log_window(runner: Runner) -> None:
    """Average the logged losses of short runs over fewer iterations: curves would be flat."""
    window = runner.log_processor.window_size
    runner.log_processor.window_size = min(window, max(1, runner.max_iters // LOG_WINDOWS))


def draw_predictions(config: Config, show_dir: str | Path) -> None:
    """Enable the hook that draws predictions, of a dense model next to the ground truth."""
    folder = str(Path(show_dir).resolve())
    if config.default_scope == 'mmpretrain':
        hook = dict(type='VisualizationHook', enable=True, interval=1, out_dir=folder)
        config.setdefault('visualizer', dict(type='UniversalVisualizer'))
    elif config.default_scope == 'mmdet':
        hook = dict(type='DetVisualizationHook', draw=True, test_out_dir=folder)
    else:
        hook = dict(type='SegVisualizationHook', draw=True, interval=1)
        visualizer = {'type': 'SegLocalVisualizer', 'name': 'visualizer'}
        visualizer.update(config.get('visualizer') or {})
        backends = [dict(type='LocalVisBackend')]
        config.visualizer = dict(visualizer, vis_backends=backends, save_dir=folder)
    config.setdefault('default_hooks', {})['visualization'] = hook


def augment_tests(config: Config) -> None:
    """Wrap the model and the test pipeline for flipped copies; the config's own choice first.

    Raises:
        UserError: If the config is no detector's and without ``tta_model`` and ``tta_pipeline``.
    """
    if config.default_scope == 'mmdet':
        config.setdefault('tta_model', dict(type='mmeffvit.InstanceTTAModel'))
        config.setdefault('tta_pipeline', flip_pipeline(config))
    if 'tta_model' not in config or 'tta_pipeline' not in config:
        raise UserError(f'--tta needs tta_model and tta_pipeline in {config.filename}')
    config.model = dict(**config.tta_model, module=config.model)
    config.test_dataloader.dataset.pipeline = config.tta_pipeline


def flip_pipeline(config: Config) -> list[dict]:
    """The test pipeline of a detector, run on the image and on its horizontal flip."""
    pipeline = deepcopy(config.test_dataloader.dataset.pipeline)
    pack = pipeline.pop()
    if 'meta_keys' in pack:  # they are among the default ones
        pack['meta_keys'] = (*pack['meta_keys'], 'flip', 'flip_direction')
    flips = [dict(type='RandomFlip', prob=prob) for prob in (0.0, 1.0)]
    return [*pipeline, dict(type='TestTimeAug', transforms=[flips, [pack]])]
