"""Memory layout and precision of training steps, chosen by measuring a few of them."""

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from mmengine.device import get_device
from mmengine.dist import all_reduce, is_main_process
from mmengine.hooks import Hook
from mmengine.optim import AmpOptimWrapper, OptimWrapper
from mmengine.runner import Runner
from torch import Tensor, nn
from torch.utils.data import DataLoader

from mmeffvit.errors import UserError
from mmeffvit.utils.machine import amx_is_safe
from mmeffvit.utils.messages import logger
from mmeffvit.utils.text import reason

from .hooks import pipelines_in, random_states_kept, seed_all
from .launcher import unwrap

KEY = 'step_format'  # of a config, and of the saved state of a run
AUTO, PLAIN = 'auto', 'plain'
ROUNDS = 3  # steps of each format, the first of which warms up
SHORTEST = 500  # steps of a run: in fewer, measuring takes more than 2 %
GAIN = 0.9  # of the plain time, that another format may take at most
# largest relative difference of a loss; heads that assign by predictions reach a tenth
AGREEMENT = 0.2


@dataclass(frozen=True)
class StepFormat:
    """How a training step is computed.

    Args:
        channels_last: Images, and so feature maps, have their channels next to each other.
        bfloat16: Autocast to bfloat16, which needs no loss scale; weights stay in float32.
    """

    channels_last: bool = False
    bfloat16: bool = False


FORMATS = {
    PLAIN: StepFormat(),
    'channels_last': StepFormat(channels_last=True),
    'bfloat16': StepFormat(channels_last=True, bfloat16=True),  # faster than without channels_last
}
# chosen without a word of the user: those that change nothing but the order of sums
SAME_LOSS = tuple(name for name, chosen in FORMATS.items() if not chosen.bfloat16)


class StepFormatHook(Hook):
    """Train in the faster memory layout, or in the format that is asked for.

    At the start of a run, a few steps of each format are taken with a copy of the model: weights,
    optimizer, data loading and random states stay as they were. Their times are logged, also that
    of bfloat16, which rounds and is therefore never chosen here. Parameters and their gradients
    keep their layout and precision in every format. Checkpoints say which one is used, and a
    resumed run keeps it.

    Args:
        name: The format; 'auto' measures.

    Raises:
        UserError: If there is no such format.
    """

    priority = 'VERY_HIGH'  # before other hooks attach to the model

    def __init__(self, name: str = AUTO) -> None:
        if name not in (AUTO, *FORMATS):
            choices = ', '.join((AUTO, *FORMATS))
            raise UserError(f'{KEY} is {name!r}; choose one of {choices}')
        self.name = name
        self.applied = ExitStack()

    def before_train(self, runner: Runner) -> None:
        is_mixed = isinstance(runner.optim_wrapper, AmpOptimWrapper)
        if is_mixed and FORMATS.get(self.name, FORMATS[PLAIN]).bfloat16:
            raise UserError(f'{KEY} is {self.name!r} and the run is in mixed precision: choose one')
        name = self.choose(runner) if self.name == AUTO else self.name
        runner.message_hub.update_info(KEY, name)
        self.applied.enter_context(in_format(unwrap(runner.model), FORMATS[name]))

    def after_train(self, runner: Runner) -> None:
        self.applied.close()

    def choose(self, runner: Runner) -> str:
        """The format of a resumed run, or the best measured one."""
        if runner.deterministic:  # times differ from run to run
            return PLAIN
        if runner.iter:
            return runner.message_hub.get_info(KEY, PLAIN)
        names = candidates(runner.optim_wrapper)
        if runner.max_iters < SHORTEST or len(names) == 1:
            return PLAIN
        with random_states_kept():
            seconds = measure(runner, names)
        name = fastest(seconds)
        if is_main_process():
            logger.info(describe(seconds, name))
        return name


def candidates(wrapper: Any) -> list[str]:
    """The formats that a run can have: in mixed precision of another kind, not bfloat16."""
    if not isinstance(wrapper, OptimWrapper):
        return [PLAIN]
    is_free = not isinstance(wrapper, AmpOptimWrapper) and supports_bfloat16()
    return [name for name, chosen in FORMATS.items() if is_free or not chosen.bfloat16]


def supports_bfloat16() -> bool:
    """Whether this device computes in bfloat16, faster or not."""
    if get_device() == 'cuda':
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return get_device() == 'cpu' and amx_is_safe()


@contextmanager
def in_format(model: nn.Module, chosen: StepFormat) -> Iterator[None]:
    """Compute the training losses of a model in a format; it is called as before."""
    entered = ExitStack()

    def enter(module: nn.Module, args: tuple, named: dict[str, Any]) -> Any:
        if not module.training or named.get('mode') != 'loss':
            return None
        if chosen.bfloat16:
            device = next(module.parameters()).device.type
            entered.enter_context(torch.autocast(device, torch.bfloat16))
        if chosen.channels_last:
            args = tuple(map(to_channels_last, args))
            named = {name: to_channels_last(value) for name, value in named.items()}
        return args, named

    def leave(*_: Any) -> None:
        entered.close()

    handles = [
        model.register_forward_pre_hook(enter, with_kwargs=True),
        model.register_forward_hook(leave, always_call=True),  # also after an error
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def to_channels_last(value: Any) -> Any:
    """A batch of images with its channels next to each other; anything else unchanged."""
    is_images = isinstance(value, Tensor) and value.ndim == 4
    return value.contiguous(memory_format=torch.channels_last) if is_images else value


class Rehearsal(OptimWrapper):
    """The optimizer wrapper of a run, for steps that change no weights.

    Args:
        wrapper: That of the run.
        model: A copy of its model.
    """

    def __init__(self, wrapper: OptimWrapper, model: nn.Module) -> None:
        super().__init__(torch.optim.SGD(model.parameters(), lr=0.0))
        self.wrapper = wrapper

    def optim_context(self, model: nn.Module) -> Any:
        return self.wrapper.optim_context(model)

    def update_params(self, loss: Tensor, *args: Any, **options: Any) -> None:
        loss.backward()
        self.zero_grad()


def measure(runner: Runner, names: list[str]) -> dict[str, float]:
    """Seconds of a step in each format; infinite if it fails or has another loss.

    Of several processes, the slowest counts.
    """
    seconds, losses = dict.fromkeys(names, math.inf), dict.fromkeys(names, math.nan)
    try:
        model, batch = deepcopy(unwrap(runner.model)).train(), first_batch(runner.train_dataloader)
        wrapper = Rehearsal(runner.optim_wrapper, model)
    except Exception as error:  # the first step of the run reports it better
        logger.info(f'formats of a step are not measured: {reason(error)}')
        names = []
    for name in names * ROUNDS:
        try:
            taken, losses[name] = rehearse(model, wrapper, batch, FORMATS[name])
            seconds[name] = min(seconds[name], taken)
        except Exception as error:  # an operator without this format raises various exceptions
            logger.info(f'no step in the format {name!r}: {reason(error)}')
    for name in names:
        if not abs(losses[name] - losses[PLAIN]) <= AGREEMENT * abs(losses[PLAIN]):
            seconds[name] = math.inf
    shared = torch.tensor([seconds[name] for name in seconds])
    all_reduce(shared, 'max')
    return dict(zip(seconds, shared.tolist(), strict=True))


def first_batch(loader: DataLoader) -> Any:
    """A batch of the first images; pipelines, which may remember images, stay as they were."""
    dataset, size = loader.dataset, loader.batch_sampler.batch_size
    kept = [(owner, deepcopy(owner.pipeline)) for owner in pipelines_in(dataset)]
    try:
        return loader.collate_fn([dataset[index % len(dataset)] for index in range(size)])
    finally:
        for owner, pipeline in kept:
            owner.pipeline = pipeline


def rehearse(
    model: nn.Module, wrapper: OptimWrapper, batch: Any, chosen: StepFormat
) -> tuple[float, float]:
    """Seconds and loss of a step; with the same random numbers in each."""
    seed_all(0)
    batch = deepcopy(batch)  # models add to samples
    with in_format(model, chosen):
        synchronize()
        start = time.perf_counter()
        logged = model.train_step(batch, wrapper)
        synchronize()
        return time.perf_counter() - start, float(logged['loss'])


def synchronize() -> None:
    """Wait for the accelerator, if there is one."""
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()


def fastest(seconds: Mapping[str, float]) -> str:
    """The fastest format of equal losses, if it takes clearly less time than the plain one."""
    name = min((name for name in seconds if name in SAME_LOSS), key=seconds.__getitem__)
    return name if seconds[name] <= GAIN * seconds[PLAIN] < math.inf else PLAIN


def describe(seconds: Mapping[str, float], name: str) -> str:
    """One line: the times, and what follows."""
    times = ', '.join(
        f'{1000 * taken:.0f} ms {key}' for key, taken in seconds.items() if taken < math.inf
    )
    return f'a step takes {times}: training in the format {name!r} (--step-format chooses another)'
