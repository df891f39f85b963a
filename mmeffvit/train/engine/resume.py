"""Whether a run can be resumed from a checkpoint."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmengine.hooks import EMAHook
from mmengine.runner import Runner

from mmeffvit.errors import CheckpointError
from mmeffvit.models.checkpoints import Checkpoint
from mmeffvit.zoo.runs import saved_checkpoints


@contextmanager
def resumable(work_dir: Path) -> Iterator[None]:
    """After an interruption, report the last checkpoint and how to resume."""
    try:
        yield
    except KeyboardInterrupt as error:
        error.__notes__ = [how_to_resume(work_dir)]
        raise


def how_to_resume(work_dir: Path) -> str:
    """A note on the last checkpoint of an interrupted run."""
    saved = next(iter(saved_checkpoints(work_dir)), None)
    if saved is None:
        return f'no checkpoint was saved in {work_dir} yet'
    return f'the last checkpoint is {saved}: run the same command with --resume to continue'


def check_resumable(runner: Runner, checkpoint: Checkpoint) -> None:
    """Check that progress, optimizer, schedulers and EMA weights are those of such a run."""
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
    elif saved.keys() != own.keys() or any(
        saved[name].sizes != own[name].sizes or not own[name].options <= saved[name].options
        for name in own
    ):
        fault = (
            f'its optimizer has {" and ".join(map(str, saved.values())) or "no parameters"}, that '
            f'of the config {" and ".join(map(str, own.values()))}'
        )
    else:
        return
    raise CheckpointError(
        f'{checkpoint} cannot be resumed: {fault}. Use the config it was trained with.'
    )


@dataclass(frozen=True)
class Groups:
    """Parameter groups of an optimizer: the number of parameters of each, and their options."""

    sizes: tuple[int, ...]
    options: frozenset[str]

    def __str__(self) -> str:
        return f'groups of {list(self.sizes)} parameters with {", ".join(sorted(self.options))}'


def groups_in(state: Any, name: str = '') -> dict[str, Groups]:
    """The parameter groups of a saved optimizer; of several optimizers by name."""
    if not isinstance(state, Mapping):
        return {}
    groups = state.get('param_groups')
    if not isinstance(groups, list) or not all(isinstance(group, Mapping) for group in groups):
        inner = [groups_in(value, str(key)) for key, value in state.items()]
        return {key: value for part in inner for key, value in part.items()}
    sizes = tuple(len(group.get('params', ())) for group in groups)
    # a scheduler adds the first learning rate when it is built
    options = frozenset.intersection(*(frozenset(group) for group in groups)) if groups else set()
    return {name: Groups(sizes, frozenset(options) - {'params', 'initial_lr'})}
