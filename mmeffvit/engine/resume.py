"""Which checkpoint a run can be resumed from."""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmengine.hooks import EMAHook
from mmengine.logging import print_log
from mmengine.runner import Runner

from mmeffvit.checkpoints.read import load_torch_file
from mmeffvit.errors import CheckpointError

# sections that mmengine's runner saves and needs to resume
SECTIONS = ('meta', 'state_dict', 'message_hub', 'optimizer')


def saved_checkpoints(work_dir: Path) -> list[Path]:
    """``epoch_N.pth`` and ``iter_N.pth`` in ``work_dir``, latest first."""
    steps = {}
    for path in work_dir.glob('*.pth'):
        match = re.fullmatch(r'(?:epoch|iter)_(\d+)', path.stem)
        if match:
            steps[path] = int(match[1])
    return sorted(steps, key=steps.__getitem__, reverse=True)


def latest_checkpoint(work_dir: Path, *, to_resume: bool = True) -> Path | None:
    """Return the latest valid checkpoint in ``work_dir``, or None.

    Later ones are reported with the reason why they are not valid.

    Args:
        work_dir: Where a run saved ``epoch_N.pth`` or ``iter_N.pth``.
        to_resume: Require everything that resuming needs; otherwise weights are enough.
    """
    for path in saved_checkpoints(work_dir):
        try:
            content = load_torch_file(path)
            if to_resume:
                check_sections(content, path)
        except CheckpointError as error:
            print_log(f'{error} Trying the one before.', logger='current', level=logging.WARNING)
        else:
            return path
    return None


@contextmanager
def resumable(work_dir: Path) -> Iterator[None]:
    """After an interruption, report the last checkpoint and how to resume."""
    try:
        yield
    except KeyboardInterrupt as error:
        saved = next(iter(saved_checkpoints(work_dir)), None)
        note = f'the last checkpoint is {saved}: run the same command with --resume to continue'
        error.__notes__ = [note if saved else f'no checkpoint was saved in {work_dir} yet']
        raise


def check_sections(content: Any, path: str | Path) -> None:
    """Check that a checkpoint has everything that a run needs to resume.

    Raises:
        CheckpointError: If a section is missing.
    """
    absent = list(SECTIONS)
    if isinstance(content, Mapping):
        absent = [name for name in SECTIONS if not isinstance(content.get(name), Mapping)]
        meta = {} if 'meta' in absent else content['meta']
        absent += [f'meta.{key}' for key in ('epoch', 'iter') if type(meta.get(key)) is not int]
    if absent:
        raise CheckpointError(
            f'{path} cannot be resumed: it lacks {", ".join(absent)}, which a training run saves. '
            'To start a new run from its weights alone, use --cfg-options load_from=FILE.'
        )


def check_resumable(runner: Runner, content: Mapping[str, Any], path: str | Path) -> None:
    """Check that optimizer, schedulers and EMA weights of a checkpoint match those of the run.

    Args:
        runner: As built; its optimizer is built if it is not yet.
        content: The checkpoint, see :func:`check_sections`; its weights are known to fit.
        path: Its file, for messages.

    Raises:
        CheckpointError: If one is missing or of another kind.
    """
    runner.optim_wrapper = runner.build_optim_wrapper(runner.optim_wrapper)
    saved, own = groups_in(content['optimizer']), groups_in(runner.optim_wrapper.state_dict())
    schedulers = runner.param_schedulers or []
    expected = len(schedulers) if isinstance(schedulers, list) else 1
    found = content.get('param_schedulers', ())
    with_ema = any(isinstance(hook, EMAHook) for hook in runner.hooks)
    if with_ema and 'ema_state_dict' not in content:
        fault = 'it has no EMA weights, and the config asks for them'
    elif isinstance(schedulers, list) and len(found) != expected:
        fault = f'it has {len(found)} parameter schedulers, the config {expected}'
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
    raise CheckpointError(f'{path} cannot be resumed: {fault}. Use the config it was trained with.')


@dataclass(frozen=True)
class Groups:
    """Parameter groups of an optimizer: how many parameters each has, and which options."""

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
