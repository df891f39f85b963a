"""Memory layout and precision of training steps, chosen by measuring a few of them."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import torch
from mmengine.device import get_device
from mmengine.dist import all_reduce, is_main_process
from mmengine.hooks import Hook
from mmengine.optim import AmpOptimWrapper, OptimWrapper
from mmengine.runner import Runner
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from mmeffvit.config.build import random_states_kept
from mmeffvit.errors import UserError
from mmeffvit.utils.machine import amx_is_safe
from mmeffvit.utils.messages import logger
from mmeffvit.utils.text import reason

from .hooks import copied_pipelines, seed_all
from .launcher import unwrap

KEY = 'step_format'  # of a config, and of the saved state of a run
AUTO, PLAIN, ROUNDED = 'auto', 'plain', 'bfloat16'
ROUNDS = 3  # steps of each format, the first of which warms up
SHORTEST = 500  # minimum steps of a run: in fewer, measuring takes more than 2 %
LOSSES = 10  # steps whose losses are compared before a format that rounds is used
SHORTEST_ROUNDED = 1200  # minimum steps of a run for this comparison, again for 2 %
GAIN = 0.9  # a chosen format takes at most this part of the time of another
# largest relative difference of the first loss; heads that assign by predictions reach a tenth
AGREEMENT = 0.2


@dataclass(frozen=True)
class StepFormat:
    """How a training step is computed.

    Args:
        channels_last: Images, and so feature maps, have the memory format channels_last.
        bfloat16: Autocast to bfloat16, which needs no loss scale; weights stay in float32.
    """

    channels_last: bool = False
    bfloat16: bool = False


FORMATS = {
    PLAIN: StepFormat(),
    'channels_last': StepFormat(channels_last=True),
    ROUNDED: StepFormat(channels_last=True, bfloat16=True),  # faster than without channels_last
}
# formats that only change the order of sums
SAME_LOSS = tuple(name for name, chosen in FORMATS.items() if not chosen.bfloat16)


class StepFormatHook(Hook):
    """Train in the fastest format of equal losses, or in a given one.

    At the start of a run, a few steps of each format are taken with copies of the model and its
    optimizer: weights, data loading and random states stay unchanged. bfloat16, which rounds, is
    used if it is faster and the losses of ten steps stay within the noise of seeds, see
    `Trials.within_noise`. Parameters and their gradients keep their layout and precision in
    every format. Checkpoints store the format, and a resumed run keeps it.

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
            trials = Trials(runner, names)
            trials.take(names, ROUNDS)
            seconds = trials.seconds()
            name = fastest(seconds)
            if runner.max_iters >= SHORTEST_ROUNDED and saves_time(seconds, ROUNDED, name):
                trials.take([name, ROUNDED], LOSSES - ROUNDS)
                name = ROUNDED if trials.within_noise(ROUNDED, name) else name
        # of the trials' clipping
        runner.optim_wrapper.message_hub.log_scalars.pop('train/grad_norm', None)
        if is_main_process():
            logger.info(describe(seconds, name))
        return name


def candidates(wrapper: Any) -> list[str]:
    """The formats that a run can have; not bfloat16 in mixed precision of another kind."""
    if not isinstance(wrapper, OptimWrapper):
        return [PLAIN]
    is_free = not isinstance(wrapper, AmpOptimWrapper) and supports_bfloat16()
    return [name for name, chosen in FORMATS.items() if is_free or not chosen.bfloat16]


def supports_bfloat16() -> bool:
    """Whether this device computes in bfloat16."""
    if get_device() == 'cuda':
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return get_device() == 'cpu' and amx_is_safe()


@contextmanager
def in_format(model: nn.Module, chosen: StepFormat) -> Iterator[None]:
    """Compute the training losses of a model in a format."""
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
    """A batch of images in channels_last; anything else unchanged."""
    is_images = isinstance(value, Tensor) and value.ndim == 4
    return value.contiguous(memory_format=torch.channels_last) if is_images else value


class Rehearsal(OptimWrapper):
    """Steps of a copied optimizer, in the context and with the clipping of the run's wrapper."""

    def __init__(self, wrapper: OptimWrapper, optimizer: Optimizer) -> None:
        super().__init__(optimizer)
        self.wrapper = wrapper

    def optim_context(self, model: nn.Module) -> Any:
        return self.wrapper.optim_context(model)

    def update_params(self, loss: Tensor, *args: Any, **options: Any) -> None:
        loss.backward()
        clipping = self.wrapper.clip_grad_kwargs
        groups = self.optimizer.param_groups
        parameters = [each for group in groups for each in group['params'] if each.grad is not None]
        if clipping and parameters:
            self.wrapper.clip_func(parameters, **clipping)
        self.optimizer.step()
        self.zero_grad()


@dataclass
class Trial:
    """Training steps of a copy of a model in one format."""

    chosen: StepFormat
    model: nn.Module
    wrapper: Rehearsal
    seconds: float = math.inf  # of the fastest step
    losses: list[float] = field(default_factory=list)

    def step(self, batch: Any) -> None:
        """Take a step, with the same random numbers in every trial."""
        seed_all(len(self.losses))
        batch = deepcopy(batch)  # models add to samples
        with in_format(self.model, self.chosen):
            synchronize()
            start = time.perf_counter()
            logged = self.model.train_step(batch, self.wrapper)
            synchronize()
            self.seconds = min(self.seconds, time.perf_counter() - start)
        self.losses.append(logged['loss'].item())


class Trials:
    """The first training steps of a run in several formats, in turn, on the same batches."""

    def __init__(self, runner: Runner, names: Sequence[str]) -> None:
        self.loader, self.names, self.trials = runner.train_dataloader, names, {}
        self.batches = 0
        try:
            for name in names:
                copied = deepcopy((unwrap(runner.model), runner.optim_wrapper.optimizer))
                model, optimizer = copied  # the same parameters in both
                wrapper = Rehearsal(runner.optim_wrapper, optimizer)
                self.trials[name] = Trial(FORMATS[name], model.train(), wrapper)
        except Exception as error:  # the first step of the run reports it better
            self.give_up(error)

    def give_up(self, error: Exception) -> None:
        logger.info(f'formats of a step are not measured: {reason(error)}')
        self.trials.clear()

    def take(self, names: Sequence[str], steps: int) -> None:
        """Take steps in some formats, and drop those that fail."""
        for _ in range(steps):
            try:
                batch = batch_at(self.loader, self.batches)
            except Exception as error:  # the first step of the run reports it better
                self.give_up(error)
                return
            self.batches += 1
            for name in [name for name in names if name in self.trials]:
                try:
                    self.trials[name].step(batch)
                except Exception as error:  # operators without this format raise various ones
                    logger.info(f'no step in the format {name!r}: {reason(error)}')
                    del self.trials[name]

    def seconds(self) -> dict[str, float]:
        """Seconds of a step of the slowest process; infinite after an error or for another loss."""
        shared = torch.tensor(
            [self.trials[name].seconds if self.agrees(name) else math.inf for name in self.names]
        )
        all_reduce(shared, 'max')
        return dict(zip(self.names, shared.tolist(), strict=True))

    def agrees(self, name: str) -> bool:
        if not {name, PLAIN} <= self.trials.keys():
            return False
        loss, plain = (self.trials[each].losses[0] for each in (name, PLAIN))
        return abs(loss - plain) <= AGREEMENT * abs(plain)

    def within_noise(self, name: str, other: str) -> bool:
        """Whether, in every process, the mean losses of two formats differ no more than two seeds.

        Two seeds differ by the standard deviation of the difference between two such means.
        """
        within = {name, other} <= self.trials.keys()
        if within:
            found, expected = (torch.tensor(self.trials[each].losses) for each in (name, other))
            difference = (found.mean() - expected.mean()).abs().item()
            noise = expected.std().item() * math.sqrt(2 / len(expected))
            within = difference <= noise  # not for NaN
            logger.info(
                f'the mean loss of {len(found)} steps in {name!r} differs by {difference:.2g}, '
                f'{"less" if within else "more"} than with another seed ({noise:.2g})'
            )
        shared = torch.tensor(float(not within))
        all_reduce(shared, 'max')
        return not shared.item()


def batch_at(loader: DataLoader, index: int) -> Any:
    """A batch of images in order; pipelines, which may cache images, stay unchanged."""
    dataset, size = loader.dataset, loader.batch_sampler.batch_size
    kept = copied_pipelines(dataset)
    images = range(index * size, (index + 1) * size)
    try:
        return loader.collate_fn([dataset[image % len(dataset)] for image in images])
    finally:
        for owner, pipeline in kept:
            owner.pipeline = pipeline


def synchronize() -> None:
    """Wait for the accelerator, if any."""
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()


def fastest(seconds: Mapping[str, float]) -> str:
    """The fastest format that does not round, if it saves time over the plain one."""
    name = min((name for name in seconds if name in SAME_LOSS), key=seconds.__getitem__)
    return name if saves_time(seconds, name, PLAIN) else PLAIN


def saves_time(seconds: Mapping[str, float], name: str, other: str) -> bool:
    """Whether a format takes clearly less time than another."""
    return seconds.get(name, math.inf) <= GAIN * seconds[other] < math.inf


def describe(seconds: Mapping[str, float], name: str) -> str:
    """One line with the times and the chosen format."""
    times = ', '.join(
        f'{1000 * taken:.0f} ms {key}' for key, taken in seconds.items() if taken < math.inf
    )
    return f'a step takes {times}: training in the format {name!r} (--step-format chooses another)'
