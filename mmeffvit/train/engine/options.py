"""Options of a run, and how they change its config."""

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.device import utils as mmengine_device
from mmengine.hooks import Hook

from mmeffvit.config.load import resolve_work_dir
from mmeffvit.errors import UserError
from mmeffvit.utils.files import check_output
from mmeffvit.utils.quiet import output_to

from .launcher import prepare_launcher

CONSOLE_LOG = 'console.log'


@dataclass
class RunOptions:
    """Command-line options of every run."""

    work_dir: str | Path | None = None  # of the log and the checkpoints, see `resolve_work_dir`
    cfg_options: Mapping[str, Any] = field(default_factory=dict)  # values by dotted keys
    launcher: str = 'none'  # who started the processes, one of ``LAUNCHERS``
    seed: int | None = None  # of everything random; None takes the config's
    deterministic: bool = False  # use deterministic algorithms only
    verbose: bool = True  # print what mmengine and its libraries print
    hooks: Sequence[Hook] = ()  # of the runner, besides those in its config
    device: str | None = None  # as given to `use_device`; None for mmengine's choice

    def output(self, work_dir: str) -> AbstractContextManager[None]:
        """Redirect the output of mmengine and its libraries to a file, unless it is verbose."""
        return nullcontext() if self.verbose else output_to(Path(work_dir, CONSOLE_LOG))


@dataclass
class TrainOptions(RunOptions):
    """Options of a training run."""

    amp: bool = False  # mixed precision, on an accelerator
    resume: str | None = None  # a checkpoint, or 'auto' for the latest valid one in the work dir
    auto_scale_lr: bool = False  # scale the learning rate with the total batch size
    check: bool = True  # check the config and its data first, see :mod:`mmeffvit.train.checks`
    strict: bool = False  # warnings about the data are errors


def prepare(config: Config, options: RunOptions) -> Path:
    """Apply the options to the config, in place, start the process group; returns the work dir."""
    config.work_dir = str(resolve_work_dir(config, options.work_dir))
    if re.search('[\ud800-\udfff]', config.work_dir):  # mmengine writes it into a text file
        raise UserError(f'the work dir {config.work_dir!r} is not UTF-8: choose another name')
    config.launcher = options.launcher
    randomness = dict(config.get('randomness') or dict(seed=None))
    if options.seed is not None:
        randomness['seed'] = options.seed
    if options.deterministic:
        randomness['deterministic'] = True
    config.randomness = randomness
    for split in ('train', 'val', 'test'):
        if loader := config.get(f'{split}_dataloader'):
            loader.persistent_workers = False  # new ones take 0.2 s an epoch, and can be seeded
    if options.launcher != 'none':
        prepare_launcher(config, options.launcher)
    return check_output(config.work_dir, folder=True)


def use_device(name: str) -> None:
    """Train on a device: mmengine would take the first kind that it finds.

    Raises:
        UserError: If there is no such device.
    """
    gpus = (f'cuda:{number}' for number in range(torch.cuda.device_count()))
    known = dict.fromkeys(('cpu', get_device(), *gpus))
    if name not in known:
        raise UserError(f'--device is {name!r}; choose from {", ".join(known)}')
    kind, _, number = name.partition(':')
    mmengine_device.DEVICE = kind  # it has no setter, and reads this at every use
    if number:
        torch.cuda.set_device(int(number))


def check_accelerator(option: str) -> None:
    """Check that there is a device other than the CPU, on which an option has no effect."""
    if get_device() == 'cpu':
        raise UserError(f'{option} needs an accelerator; there is none here')


def has_amp() -> bool:
    """Whether mmengine has mixed precision on this device."""
    return get_device() not in ('cpu', 'mps')


def use_mixed_precision(config: Config) -> None:
    check_accelerator('--amp')
    if not has_amp():
        raise UserError(f'--amp does not work on {get_device()} in mmengine: leave it out')
    kind = config.optim_wrapper.get('type', 'OptimWrapper')
    kind = getattr(kind, '__name__', kind)  # a class in configs of mmengine's new format
    if 'Amp' not in kind:  # also for our own wrapper
        config.optim_wrapper.type = kind.replace('OptimWrapper', 'AmpOptimWrapper')
    config.optim_wrapper.loss_scale = 'dynamic'


def enable_lr_scaling(config: Config) -> None:
    if 'base_batch_size' not in (config.get('auto_scale_lr') or {}):
        raise UserError(
            f'--auto-scale-lr needs auto_scale_lr = dict(base_batch_size=N) in {config.filename}, '
            'N the images per step that its learning rate is meant for'
        )
    config.auto_scale_lr.enable = True
