"""Processes share the running statistics of norms of a model and of its EMA weights."""

import pytest

from tests.conftest import run_python
from tests.variants import sampled

STATISTICS = """
import os
from types import SimpleNamespace
import torch
from mmengine.hooks import CheckpointHook
from mmeffvit.train.engine.ema import EMAHook

child = os.fork()
rank = int(not child)
address = 'file://{file}'
torch.distributed.init_process_group('gloo', init_method=address, rank=rank, world_size=2)
norm = torch.nn.BatchNorm1d(1)
norm.running_mean.fill_(rank)
saving = CheckpointHook(interval=2, by_epoch=False)
runner = SimpleNamespace(model=norm, iter=1, epoch=0, max_iters=9, hooks=[saving])
hook = EMAHook(update_buffers=True)
hook.before_run(runner)
hook.before_train_epoch(runner)
{event}
saved = float(hook.ema_model.module.running_mean)
norm.running_mean.fill_(-rank)  # swapped with that of the EMA weights
hook.before_val_epoch(runner)
averaged = hook.ema_model.module
found = f'{{rank}} {{saved}} {{float(norm.running_mean)}} {{float(averaged.running_mean)}}'
os.write(1, (found + os.linesep).encode())  # in one call: lines of two processes do not mix
torch.distributed.barrier()
os._exit(0) if rank else os.waitpid(child, 0)
"""


# a checkpoint at the end of an epoch, and one after the second step
@pytest.mark.parametrize(
    'event',
    sampled(
        ['hook.after_train_epoch(runner)', 'hook.after_train_iter(runner, 1)'],
        ['hook.after_train_epoch(runner)'],
    ),
)
def test_processes_validate_and_save_the_same_statistics_of_norms(event, tmp_path):
    done = run_python('-c', STATISTICS.format(file=tmp_path / 'store', event=event))
    lines = sorted(line for line in done.stdout.splitlines() if line[:2] in ('0 ', '1 '))
    assert lines == [f'{rank} 0.5 0.5 -0.5' for rank in range(2)], done.stdout
