"""Random states that a resumed run reproduces."""

from functools import partial

import numpy as np
from mmengine.dataset import worker_init_fn
from mmengine.dist import get_rank
from mmengine.hooks import Hook
from mmengine.runner import EpochBasedTrainLoop, Runner, set_random_seed


def derive_seed(*numbers: int) -> int:
    """Mix ``numbers`` into one seed below 2**31."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0] >> 1)


class ResumableRandomnessHook(Hook):
    """Make random numbers depend on (seed, rank, epoch) alone, so that a resumed run matches.

    mmengine seeds only at the start. Under an epoch-based loop, this hook seeds this process and
    its data loading processes, which are new ones in every epoch. Under an iteration-based loop, it
    seeds this process at every iteration; there the loop itself replays the data loading, exactly
    if it has processes of its own (``num_workers`` > 0).
    """

    priority = 'VERY_HIGH'

    def before_train_epoch(self, runner: Runner) -> None:
        seed = derive_seed(runner.seed, get_rank(), runner.epoch)
        set_random_seed(seed)
        init = runner.train_dataloader.worker_init_fn
        if isinstance(init, partial) and init.func is worker_init_fn:
            runner.train_dataloader.worker_init_fn = partial(init, seed=seed)

    def before_train_iter(self, runner: Runner, batch_idx: int, data_batch: object = None) -> None:
        if not isinstance(runner.train_loop, EpochBasedTrainLoop):
            set_random_seed(derive_seed(runner.seed, get_rank(), runner.iter))
