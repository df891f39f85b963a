"""Logged scalars that stay on their device until they are read."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from mmengine.hooks import RuntimeInfoHook as StockRuntimeInfoHook
from mmengine.logging import HistoryBuffer, MessageHub
from mmengine.runner import Runner
from torch import Tensor

from mmeffvit.registry import HOOKS

Scalar = int | float | Tensor


class DeferredMessageHub(MessageHub):
    """mmengine's message hub with the same scalars, which are not waited for in every step.

    mmengine converts each loss of each step to a number, for which a GPU has to finish, and copies
    all earlier numbers to append one. Here, scalars are kept until one of them is read, as by the
    logger every 50 steps, and transferred together.
    """

    pending: dict[str, list[tuple[Scalar, int]]]

    def update_scalar(
        self, key: str, value: Scalar | np.ndarray | np.number, count: int = 1, resumed: bool = True
    ) -> None:
        self._set_resumed_keys(key, resumed)
        assert isinstance(count, int), f'count of {key} is {count!r}; it must be an integer'
        if isinstance(value, Tensor):
            assert value.numel() == 1, f'{key} has {value.numel()} values; it must have one'
            value = value.detach().reshape(()).clone()  # the model may change it later
        else:
            value = self._get_valid_value(value)
        self._log_scalars.setdefault(key, HistoryBuffer())  # the logger keeps the order
        self.pending[key].append((value, count))

    @property
    def log_scalars(self) -> dict[str, HistoryBuffer]:
        self.transfer(list(self.pending))
        return self._log_scalars

    def get_scalar(self, key: str) -> HistoryBuffer:
        self.transfer([key])
        if key not in self._log_scalars:
            raise KeyError(f'{key!r} has not been logged')
        return self._log_scalars[key]

    def state_dict(self) -> dict[str, Any]:
        self.transfer(list(self.pending))
        return super().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any] | MessageHub) -> None:
        self.transfer(list(self.pending))
        super().load_state_dict(state_dict)

    def transfer(self, keys: Iterable[str]) -> None:
        """Append the pending values of ``keys`` to their histories."""
        found = {key: self.pending.pop(key) for key in keys if key in self.pending}
        numbers = in_python([value for entries in found.values() for value, _ in entries])
        for key, entries in found.items():
            values = [next(numbers) for _ in entries]
            append(self._log_scalars[key], values, [count for _, count in entries])


def defer(hub: MessageHub) -> None:
    """Make a hub a deferred one, in place: the optimizer wrapper and others hold it already."""
    if type(hub) is MessageHub:
        hub.pending = defaultdict(list)
        hub.__class__ = DeferredMessageHub


def in_python(values: list[Scalar]) -> Iterator[int | float]:
    """The values as numbers, in their order, with one transfer per device and type."""
    groups = defaultdict(list)
    for index, value in enumerate(values):
        if isinstance(value, Tensor):
            groups[value.device, value.dtype].append(index)
    numbers = dict(enumerate(values))
    for indices in groups.values():
        transferred = torch.stack([values[index] for index in indices]).tolist()
        numbers.update(zip(indices, transferred, strict=True))
    return iter(numbers.values())


def append(history: HistoryBuffer, values: list[int | float], counts: list[int]) -> None:
    """``history.update`` for several values, without a copy of the history for each."""
    old = history.data
    if len(old[0]):
        values, counts = np.append(old[0], values), np.append(old[1], counts)
    history._log_history = np.asarray(values)[-history.max_length :]
    history._count_history = np.asarray(counts)[-history.max_length :]


@HOOKS.register_module()
class RuntimeInfoHook(StockRuntimeInfoHook):
    """mmengine's hook that logs losses and learning rates, without waiting for a GPU in every step.

    Use it in any config of mmengine:
    ``default_hooks = dict(runtime_info=dict(type='mmeffvit.RuntimeInfoHook'))``.
    """

    def before_run(self, runner: Runner) -> None:
        defer(runner.message_hub)
        super().before_run(runner)
