"""What configs of tests import: hooks that kill a run and write its losses, a failing backbone."""

import os
import signal
from pathlib import Path

from mmengine.dist import all_reduce, get_rank
from mmengine.hooks import Hook
from mmengine.registry import HOOKS, MODELS
from torch import Tensor

from mmeffvit.models import SwiftFormer


@HOOKS.register_module()
class KillHook(Hook):
    """The process gets a signal in the middle of an epoch."""

    def before_train(self, runner) -> None:
        # a shell has jobs in the background ignore it, and so would this process
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None) -> None:
        if runner.iter + 1 == int(os.environ.get('KILL_AFTER', -1)):
            os.kill(os.getpid(), int(os.environ.get('KILL_SIGNAL', signal.SIGKILL)))


@HOOKS.register_module()
class LossWriterHook(Hook):
    """Every process writes the loss of every iteration to a file."""

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None) -> None:
        with Path(os.environ['LOSS_DIR'], f'rank{get_rank()}.txt').open('a') as file:
            file.write(f'{outputs["loss"].item():.9f}\n')


@MODELS.register_module()
class FailsInOneProcess(SwiftFormer):
    """It fails in one process, while the others wait for that in a collective."""

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        if get_rank() == 1:
            raise RuntimeError('fails in one process')
        all_reduce(images.mean())
        return super().forward(images)
