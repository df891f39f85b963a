"""What a resumed run goes on from: its best checkpoint, its validations and its early stopping."""

import re
from collections.abc import Mapping, MutableMapping
from math import inf
from pathlib import Path
from typing import Any

from mmengine.dist import is_main_process
from mmengine.hooks import CheckpointHook, Hook
from mmengine.hooks import EarlyStoppingHook as StockEarlyStoppingHook
from mmengine.runner import EpochBasedTrainLoop, Runner

from mmeffvit.registries import HOOKS
from mmeffvit.utils.messages import logger
from mmeffvit.utils.text import counted

VALIDATED = 'step_validated'  # the step that was validated last
# and a metric: validations without a better one, the best, and the steps that the run was to take
STOPPING = 'early_stopping_'
PATHS, SCORES = 'best_ckpt', 'best_score'  # mmengine's names, which more than one metric extend


class KeepingCheckpointHook(CheckpointHook):
    """mmengine's hook, which deletes the best checkpoint only once a better one is on disk.

    A checkpoint names the best one of its run, and a resumed run would delete whatever that is: it
    has to be in the folder of this run. The checkpoint of a step is saved again after its
    validation, which a resumed run then does not repeat.
    """

    def before_train(self, runner: Runner) -> None:
        info = runner.message_hub.runtime_info
        steps = info.get('keep_ckpt_ids', ())
        info['keep_ckpt_ids'] = [step for step in steps if isinstance(step, int)]
        if VALIDATED not in info:
            runner.message_hub.update_info(VALIDATED, runner.iter)  # saved in checkpoints
        super().before_train(runner)
        self.find_best(info)
        step = runner.epoch if self.by_epoch else runner.iter
        path = self.file_backend.join_path(self.out_dir, self.filename_tmpl.format(step))
        if step and self.file_backend.isfile(path):  # to be saved again after its validation
            self.last_ckpt = path

    def find_best(self, info: MutableMapping[str, Any]) -> None:
        """Look for the best checkpoints of a resumed run in its folder, and forget all others."""
        for key, place in best_in(info).items():
            path = self.file_backend.join_path(self.out_dir, Path(str(place)).name)
            if self.is_best(path) and self.file_backend.isfile(path):
                info[key] = path
            else:
                del info[key]
                info.pop(key.replace(PATHS, SCORES), None)
        self.set_best(info)

    def set_best(self, info: Mapping[str, Any]) -> None:
        """Set the best checkpoints that mmengine's hook deletes before it saves better ones."""
        if self.save_best and len(self.key_indicators) == 1:
            self.best_ckpt_path = info.get(PATHS)
        elif self.save_best:
            names = self.key_indicators
            self.best_ckpt_path_dict = {name: info.get(f'{PATHS}_{name}') for name in names}

    def is_best(self, path: str) -> bool:
        """Whether a name is the one of a best checkpoint, by a metric of this run if known."""
        known = getattr(self, 'key_indicators', ())  # only of a run that saves the best
        keys = (key.replace('/', '_') for key in known if key != 'auto')
        metric = '|'.join(map(re.escape, keys)) or '.*'
        return re.fullmatch(rf'best_({metric})_\w+\.pth', Path(path).name) is not None

    def after_val_epoch(self, runner: Runner, metrics: Mapping[str, float]) -> None:
        runner.message_hub.update_info(VALIDATED, runner.iter)
        info = runner.message_hub.runtime_info
        before = best_in(info)
        self.set_best({})  # mmengine would delete them before it saves
        super().after_val_epoch(runner, metrics)
        self.set_best(info)
        after = best_in(info)
        step = runner.epoch if self.by_epoch else runner.iter
        name = self.filename_tmpl.format(step)
        is_saved = self.last_ckpt is not None and Path(self.last_ckpt).name == name
        if is_saved and after == before:
            self._save_checkpoint_with_step(
                runner, step, dict(epoch=runner.epoch, iter=runner.iter)
            )
        for path in {*before.values()} - {*after.values()}:
            if is_main_process() and self.file_backend.isfile(path):
                self.file_backend.remove(path)


def best_in(info: Mapping[str, Any]) -> dict[str, Any]:
    """The best checkpoints of a run, by mmengine's keys."""
    return {key: path for key, path in info.items() if key.startswith(PATHS)}


class ValidationHook(Hook):
    """Validate the checkpoint that a run resumes from, if that was interrupted or never begun."""

    priority = 'LOWEST'  # all others are ready

    def before_train(self, runner: Runner) -> None:
        done = runner.message_hub.runtime_info.get(VALIDATED, runner.iter)
        if done != runner.iter and is_due(runner):
            logger.info('validating the checkpoint: the run was interrupted before')
            runner.val_loop.run()


def is_due(runner: Runner) -> bool:
    """Whether mmengine's loops validate after the current epoch or step."""
    loop = runner.train_loop
    loop._decide_current_val_interval()
    by_epoch = isinstance(loop, EpochBasedTrainLoop)
    step, last = (loop.epoch, loop.max_epochs) if by_epoch else (loop.iter, loop.max_iters)
    is_end = step % loop.val_interval == 0 or step == last
    is_inside = by_epoch and loop.iter != step * len(loop.dataloader)
    return runner.val_loop is not None and step >= loop.val_begin and is_end and not is_inside


@HOOKS.register_module()
class EarlyStoppingHook(StockEarlyStoppingHook):
    """mmengine's hook, which a resumed run continues; an equal metric is no better one.

    A run that is resumed with more epochs or steps counts from the start.

    Args:
        patience: Validations without a better metric after which training stops.
        min_delta: By how much a better metric is above the best one, or below it.
        arguments: See mmengine's hook.
    """

    priority = 'LOW'  # before the hook that saves

    def __init__(self, *, patience: int = 5, min_delta: float = 1e-6, **arguments: Any) -> None:
        super().__init__(patience=patience, min_delta=min_delta, **arguments)

    def before_train(self, runner: Runner) -> None:
        first = 0, -inf if self.rule == 'greater' else inf
        self.wait_count, self.best_score, *steps = runner.message_hub.runtime_info.get(
            STOPPING + self.monitor, first
        )
        if steps and runner.max_iters > steps[0]:
            self.wait_count = 0
        runner.train_loop.stop_training |= self.wait_count >= self.patience

    def after_val_epoch(self, runner: Runner, metrics: Mapping[str, float]) -> None:
        super().after_val_epoch(runner, metrics)
        state = [self.wait_count, self.best_score, runner.max_iters]
        runner.message_hub.update_info(STOPPING + self.monitor, state)

    def after_train(self, runner: Runner) -> None:
        if self.wait_count >= self.patience and runner.iter < runner.max_iters:
            logger.info(
                f'stopped early: {self.monitor} did not improve in '
                f'{counted(self.wait_count, "validation")}; to continue, resume with more epochs '
                'than the config has'
            )
