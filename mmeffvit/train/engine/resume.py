"""Whether a run can be resumed from a checkpoint, and with which schedule."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

from mmengine.hooks import EMAHook, Hook
from mmengine.optim import _ParamScheduler
from mmengine.runner import EpochBasedTrainLoop, Runner

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
    saved, own = groups_in(sections['optimizer']), groups_in(runner.optim_wrapper.state_dict())
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
    elif saved.sizes != own.sizes or not own.options <= saved.options:
        fault = f'its optimizer has {saved}, the optimizer in the config {own}'
    else:
        return
    raise CheckpointError(
        f'{checkpoint} cannot be resumed: {fault}. Use the config it was trained with.'
    )


@dataclass(frozen=True)
class Groups:
    """Parameter groups of an optimizer: the number of parameters of each, and their options."""

    sizes: tuple[int, ...] = ()
    options: frozenset[str] = frozenset()

    def __str__(self) -> str:
        if not self.sizes:
            return 'no parameters'
        return f'groups of {list(self.sizes)} parameters with {", ".join(sorted(self.options))}'


def groups_in(state: Mapping[str, Any]) -> Groups:
    """The parameter groups of a saved optimizer; none of several optimizers, or of a broken one."""
    groups = state.get('param_groups')
    if not groups or not isinstance(groups, list) or not all(map(is_dict, groups)):
        return Groups()
    sizes = tuple(len(group.get('params', ())) for group in groups)
    # a scheduler adds the first learning rate when it is built
    options = frozenset.intersection(*map(frozenset, groups)) - {'params', 'initial_lr'}
    return Groups(sizes, options)


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
