"""The largest batch size that fits in memory, measured by training on the data."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.optim import build_optim_wrapper
from mmengine.registry import DATASETS, FUNCTIONS

from mmeffvit.config.build import build_model, isolated, own_model_config
from mmeffvit.config.load import open_config
from mmeffvit.errors import UserError
from mmeffvit.train.engine.options import use_mixed_precision
from mmeffvit.train.engine.step_format import StepFormatHook
from mmeffvit.train.engine.user_errors import building
from mmeffvit.utils.machine import free_memory, resident_memory
from mmeffvit.utils.messages import logger
from mmeffvit.utils.text import counted

SHARE = 0.8  # of the free memory; sizes of images and numbers of objects differ between batches
SMALLEST = 2  # batch norms need two images where maps end at 1 x 1
GIB = 2**30


def largest_batch(
    config_path: Path,
    limit: int,
    processes: int,
    *,
    amp: bool = False,
    cfg_options: Mapping[str, Any] | None = None,
) -> int:
    """The largest power of two, up to ``limit``, whose training step fits in the free memory.

    Each size is tried in a step with the images, model and optimizer of the config. A CPU process
    that runs out of memory is killed, so the memory of a size is predicted from smaller ones.
    The ``processes`` share the memory of a CPU.

    Raises:
        UserError: If not even two images fit, or the device cannot be measured.
    """
    device = get_device()
    if device not in ('cpu', 'cuda'):
        raise UserError(f'--batch auto measures CPUs and CUDA devices, not {device}: give a number')
    config = open_config(config_path, cfg_options)
    free = free_memory() / processes if device == 'cpu' else torch.cuda.mem_get_info()[0]
    free *= SHARE
    with isolated(config.default_scope), measuring(device) as peak:
        found = list(fitting_sizes(make_step(config, device, amp), peak, free, limit))
    if not found:
        raise UserError(
            f'two images do not fit in {free / GIB:.1f} GiB: try a smaller --image-size'
        )
    size, used = found[-1]
    logger.info(
        f'--batch auto: {counted(size, "image")} take {used / GIB:.1f} GiB of {free / GIB:.1f} GiB'
        + (f' for each of {processes} processes' if processes > 1 else '')
    )
    return size


def fitting_sizes(
    step: Callable[[int], None], peak: Callable[[], int], free: float, limit: int
) -> Iterator[tuple[int, int]]:
    """Sizes that fit and the bytes that they need, from small to large."""
    tried: list[tuple[int, int]] = []
    size = SMALLEST
    while size <= limit and predicted(tried, size) <= free:
        try:
            step(size)
        except torch.OutOfMemoryError:
            return
        tried.append((size, peak()))
        if tried[-1][1] > free:
            return
        yield tried[-1]
        size *= 2


def predicted(tried: list[tuple[int, int]], size: int) -> float:
    """The memory of a size, extrapolated linearly from the last two."""
    if len(tried) < 2:
        return 0.0
    (first, low), (second, high) = tried[-2:]
    return high + (high - low) / (second - first) * (size - second)


def make_step(config: Config, device: str, amp: bool) -> Callable[[int], None]:
    """A function that trains for one step with a given batch size."""
    model = build_model(own_model_config(config)).to(device).train()
    StepFormatHook(config.get('channels_last'), config.get('amp_dtype')).attach(model)
    if amp:
        use_mixed_precision(config)
    optimizer = build_optim_wrapper(model, config.optim_wrapper)
    with building(config):
        dataset = DATASETS.build(config.train_dataloader.dataset)
    settings = dict(config.train_dataloader.get('collate_fn', dict(type='pseudo_collate')))
    collate = partial(FUNCTIONS.get(settings.pop('type')), **settings)

    def step(size: int) -> None:
        images = [dataset[index % len(dataset)] for index in range(size)]
        model.train_step(collate(images), optimizer)

    return step


@contextmanager
def measuring(device: str) -> Iterator[Callable[[], int]]:
    """A function that returns the peak memory since the start, in bytes above the start."""
    if device == 'cuda':
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_reserved()
        yield lambda: torch.cuda.max_memory_reserved() - before
        torch.cuda.empty_cache()
        return
    Path('/proc/self/clear_refs').write_text('5')  # the peak starts again from what is in use
    before = resident_memory()
    yield lambda: max(resident_memory(peak=True) - before, 0)  # in memory that was free already
