"""A hook for configs of tests: the process gets a signal in the middle of an epoch."""

import os
import signal

from mmengine.hooks import Hook
from mmengine.registry import HOOKS


@HOOKS.register_module()
class KillHook(Hook):
    def before_train(self, runner) -> None:
        # a shell has jobs in the background ignore it, and so would this process
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None) -> None:
        if runner.iter + 1 == int(os.environ.get('KILL_AFTER', -1)):
            os.kill(os.getpid(), int(os.environ.get('KILL_SIGNAL', signal.SIGKILL)))
