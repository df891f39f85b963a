"""A hook for configs of tests: every process writes the loss of every iteration to a file."""

import os
from pathlib import Path

from mmengine.dist import get_rank
from mmengine.hooks import Hook
from mmengine.registry import HOOKS


@HOOKS.register_module()
class LossWriterHook(Hook):
    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None) -> None:
        path = Path(os.environ['LOSS_DIR'], f'rank{get_rank()}.txt')
        with path.open('a') as file:
            file.write(f'{outputs["loss"].item():.9f}\n')
