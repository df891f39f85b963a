"""Whether a run can be resumed from a checkpoint, with which schedule and random numbers."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from mmengine.dataset import worker_init_fn
from mmengine.dist import get_rank
from mmengine.hooks import EMAHook, Hook
from mmengine.optim import _ParamScheduler
from mmengine.runner import EpochBasedTrainLoop, Runner, set_random_seed

from mmeffvit.errors import CheckpointError
from mmeffvit.models.checkpoints import Checkpoint
from mmeffvit.utils.messages import logger
from mmeffvit.utils.schema import is_dict
from mmeffvit.zoo.runs import saved_checkpoints


@contextmanager
def resumable(work_dir: Path) -> Iterator[None]:
    """After an interruption or on a full disk, report the last checkpoint and how to resume."""
    try:
        yield
    except (KeyboardInterrupt, OSError) as error:
        if isinstance(error, KeyboardInterrupt) or saved_checkpoints(work_dir):
            error.__notes__ = [how_to_resume(work_dir)]
        raise


def how_to_resume(work_dir: Path) -> str:
    """A note on the last checkpoint of an interrupted run."""
    saved = next(iter(saved_checkpoints(work_dir)), None)
    if saved is None:
        return f'no checkpoint was saved in {work_dir} yet'
    return f'the last checkpoint is {saved}: run the same command with --resume to continue'


def check_resumable(runner: Runner, checkpoint: Checkpoint) -> None:
    """Check that progress, optimizer, schedulers and EMA weights belong to such a run."""
    runner.optim_wrapper = runner.build_optim_wrapper(runner.optim_wrapper)
    sections = checkpoint.sections
    sizes, options = groups_in(sections['optimizer'])
    own_sizes, own_options = groups_in(runner.optim_wrapper.state_dict())
    schedulers = runner.param_schedulers or []
    found = sections.get('param_schedulers', ())
    with_ema = any(isinstance(hook, EMAHook) for hook in runner.hooks)
    meta, planned = checkpoint.meta, dict(epoch=runner.max_epochs, iter=runner.max_iters)
    beyond = [name for name in planned if meta[name] > planned[name]]
    if beyond:
        name = beyond[0]
        fault = f'its meta.{name} is {meta[name]}, and the config trains to {planned[name]}'
    elif with_ema and 'ema_state_dict' not in sections:
        fault = 'it has no EMA weights, and the config asks for them'
    elif isinstance(schedulers, list) and len(found) != len(schedulers):
        fault = f'it has {len(found)} parameter schedulers, the config {len(schedulers)}'
    elif sizes != own_sizes or not own_options <= options:
        saved, own = in_words(sizes, options), in_words(own_sizes, own_options)
        fault = f'its optimizer has {saved}, the optimizer in the config {own}'
    else:
        return
    raise CheckpointError(
        f'{checkpoint} cannot be resumed: {fault}. Use the config it was trained with.'
    )


def groups_in(state: Mapping[str, Any]) -> tuple[list[int], set[str]]:
    """Sizes of the parameter groups of a saved optimizer, and their options.

    None of several optimizers, or of a broken one.
    """
    groups = state.get('param_groups')
    if not groups or not isinstance(groups, list) or not all(map(is_dict, groups)):
        return [], set()
    # a scheduler adds the first learning rate when it is built
    options = set.intersection(*map(set, groups)) - {'params', 'initial_lr'}
    return [len(group.get('params', ())) for group in groups], options


def in_words(sizes: list[int], options: set[str]) -> str:
    if not sizes:
        return 'no parameters'
    return f'groups of {sizes} parameters with {", ".join(sorted(options))}'


class ScheduleHook(Hook):
    """Resume a run whose schedule has changed, such as to more epochs, on the new schedule.

    mmengine resumes the schedulers of the checkpoint with all of their arguments, so that a
    finished run would continue at its last learning rate. If the config's arguments differ, its
    schedulers take the steps of the run instead, from the first.
    """

    def before_run(self, runner: Runner) -> None:
        self.planned = [deepcopy(each.state_dict()) for each in schedulers_of(runner)]
        self.groups = [
            {key: value for key, value in group.items() if key != 'params'}
            for group in (runner.optim_wrapper.param_groups if self.planned else ())
        ]

    def before_train(self, runner: Runner) -> None:
        schedulers = schedulers_of(runner)
        pairs = list(zip(schedulers, self.planned, strict=True))
        if not runner.iter or all(same_arguments(each, planned) for each, planned in pairs):
            return
        names = {each.param_name for each in schedulers}
        scheduled = {*names, *(f'initial_{name}' for name in names)}
        if 'momentum' in names:
            scheduled.add('betas')  # where Adam has it
        for group, first in zip(runner.optim_wrapper.param_groups, self.groups, strict=True):
            group.update({key: value for key, value in first.items() if key in scheduled})
        for each, planned in pairs:
            each.load_state_dict(planned)
        by_epoch = isinstance(runner.train_loop, EpochBasedTrainLoop)
        length = len(runner.train_dataloader) if by_epoch else runner.iter + 1
        with warnings.catch_warnings():  # of steps without one of the optimizer
            warnings.simplefilter('ignore')
            for step in range(1, runner.iter + 1):
                for each in schedulers:
                    if not each.by_epoch or step % length == 0:
                        each.step()
        rate = runner.optim_wrapper.get_lr()['lr'][0]
        logger.info(f'the schedule has changed: resuming at a learning rate of {rate:.3g}')


def schedulers_of(runner: Runner) -> list[_ParamScheduler]:
    """The schedulers of a run that depend on the step alone, if all do."""
    schedulers = runner.param_schedulers
    is_list = isinstance(schedulers, list)
    if not is_list or any(getattr(each, 'need_val_args', False) for each in schedulers):
        return []
    return schedulers


def same_arguments(scheduler: _ParamScheduler, planned: Mapping[str, Any]) -> bool:
    """Whether a scheduler has the arguments and first values of a planned one."""
    names = {
        name
        for cls in type(scheduler).__mro__
        for name in signature(cls.__init__).parameters
        if name in planned
    } | {'base_values'}
    state = scheduler.state_dict()
    return all(state.get(name) == planned[name] for name in names - {'last_step', 'verbose'})


def derive_seed(*numbers: int) -> int:
    """Mix ``numbers`` into one seed below 2**31."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0] >> 1)


class ResumableRandomnessHook(Hook):
    """Make random numbers depend on (seed, rank, epoch) alone, so that a resumed run matches.

    mmengine seeds only at the start. Under an epoch-based loop, this hook seeds this process and
    its data loading processes, which are new ones in every epoch. Under an iteration-based loop, it
    seeds this process at every iteration; there the loop itself replays the data loading, exactly
    if it has processes of its own (``num_workers`` > 0).
    """

    priority = 'VERY_HIGH'

    def before_train_epoch(self, runner: Runner) -> None:
        seed = derive_seed(runner.seed, get_rank(), runner.epoch)
        set_random_seed(seed)
        init = runner.train_dataloader.worker_init_fn
        if isinstance(init, partial) and init.func is worker_init_fn:
            runner.train_dataloader.worker_init_fn = partial(init, seed=seed)

    def before_train_iter(self, runner: Runner, batch_idx: int, data_batch: object = None) -> None:
        if not isinstance(runner.train_loop, EpochBasedTrainLoop):
            set_random_seed(derive_seed(runner.seed, get_rank(), runner.iter))
