"""EMA weights whose norms have the same running statistics in every process."""

from typing import Any

from mmengine.dist import all_reduce_params
from mmengine.hooks import CheckpointHook
from mmengine.hooks import EMAHook as StockEMAHook
from mmengine.runner import Runner

from mmeffvit.registries import HOOKS


@HOOKS.register_module()
class EMAHook(StockEMAHook):
    """mmengine's EMA hook; processes share running statistics before a validation and a checkpoint.

    Use it in any config of mmengine: ``custom_hooks = [dict(type='mmeffvit.EMAHook', ...)]``.
    """

    def after_train_iter(self, runner: Runner, *args: Any, **kwargs: Any) -> None:
        super().after_train_iter(runner, *args, **kwargs)
        if saves_now(runner):
            self.share_statistics()

    def after_train_epoch(self, runner: Runner) -> None:
        self.share_statistics()  # before a checkpoint is written

    def before_val_epoch(self, runner: Runner) -> None:
        self.share_statistics()
        super().before_val_epoch(runner)

    def share_statistics(self) -> None:
        """Average the running statistics of norms over the processes.

        Without SyncBN, each process would validate another model than the saved one.
        """
        for model in (self.ema_model.module, self.src_model):
            floating = [each for each in model.buffers() if each.is_floating_point()]
            all_reduce_params(floating, op='mean')


def saves_now(runner: Runner) -> bool:
    """Whether a checkpoint is written after this step, not at the end of an epoch."""
    return any(
        isinstance(hook, CheckpointHook) and not hook.by_epoch
        and (hook.every_n_train_iters(runner, hook.interval, hook.save_begin)
             or (hook.save_last and hook.is_last_train_iter(runner)))
        for hook in runner.hooks
    )  # fmt: skip
