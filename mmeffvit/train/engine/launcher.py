"""The launcher, the process group, and the runner."""

import os
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.dist import is_main_process
from mmengine.fileio import LocalBackend, register_backend
from mmengine.model import BaseTTAModel, is_model_wrapper
from mmengine.registry import RUNNERS
from mmengine.runner import Runner
from torch import nn

from mmeffvit.errors import UserError
from mmeffvit.utils.files import own_file, write_file
from mmeffvit.utils.interrupts import deferred

from .metrics import PercentHook
from .user_errors import building

LAUNCHERS = ('none', 'pytorch', 'slurm', 'mpi')
BACKEND = 'mmeffvit_atomic'
LAST_CHECKPOINT = 'last_checkpoint'  # mmengine's name


def prepare_launcher(config: Config, launcher: str) -> None:
    """Check how the processes were started, and use gloo if there is no accelerator.

    The runner starts a process group only where there is an accelerator.
    """
    if launcher == 'pytorch' and 'RANK' not in os.environ:
        raise UserError(
            '--launcher pytorch needs processes started by torchrun: '
            '`torchrun --nproc_per_node N -m mmeffvit train CONFIG --launcher pytorch`'
        )
    if get_device() != 'cpu':
        return
    if launcher != 'pytorch':
        raise UserError(
            f'--launcher {launcher} needs accelerators and there are none; start CPU '
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


@register_backend(BACKEND, force=True)
class AtomicLocalBackend(LocalBackend):
    """The local file system; a file appears under its name once it is completely on disk.

    For ``CheckpointHook(backend_args=dict(backend='mmeffvit_atomic'))``: a run killed while
    saving keeps the earlier checkpoints.
    """

    def put(self, obj: bytes, filepath: str | Path) -> None:
        try:
            write_file(filepath, obj)
        except OSError as error:  # a full disk names no file
            raise OSError(error.errno, error.strerror, str(filepath)) from error


class WholeCheckpointsRunner(Runner):
    """mmengine's runner; a signal waits until a checkpoint is written."""

    def save_checkpoint(self, *arguments: Any, **options: Any) -> None:
        with deferred():
            super().save_checkpoint(*arguments, **options)


class EvaluationRunner(WholeCheckpointsRunner):
    """A runner that does not overwrite the config of a run in its work dir."""

    def dump_config(self) -> None:
        pass


def build_runner(config: Config, *, to_test: bool = False) -> Runner:
    """Build the runner, which writes the config to the work dir.

    Not ``to_test``: test-time augmentation and drawings change the config.

    Raises:
        UserError: If a name is not registered or an argument does not fit its class.
    """
    if is_main_process():
        names = [LAST_CHECKPOINT]  # mmengine writes them in place
        if config.filename:  # a config without a file gets a new name
            names.append(Path(config.filename).name)
        for name in names:
            own_file(Path(config.work_dir, name))
    with building(config):
        own = EvaluationRunner if to_test else WholeCheckpointsRunner
        build = RUNNERS.build if 'runner_type' in config else own.from_cfg
        runner = build(config)
    if runner.deterministic:
        # torch would write every new tensor twice, to find programs that read before they write
        torch.utils.deterministic.fill_uninitialized_memory = False
    runner.register_hook(PercentHook())
    return runner


def unwrap(model: nn.Module) -> nn.Module:
    """The model inside wrappers for distributed training or test-time augmentation."""
    while is_model_wrapper(model) or isinstance(model, BaseTTAModel):
        model = model.module
    return model
