"""Logged scalars that stay on their device until they are read."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from mmengine.hooks import RuntimeInfoHook as StockRuntimeInfoHook
from mmengine.logging import HistoryBuffer, MessageHub
from mmengine.runner import Runner
from torch import Tensor

from mmeffvit.registries import HOOKS

Scalar = int | float | Tensor


class DeferredHistory(HistoryBuffer):
    """mmengine's history of a scalar, which keeps new values on their device until it is read.

    In every step, mmengine waits for the GPU to convert each loss to a number, and copies all
    earlier numbers to append it. Here, when a history of a hub is read, as by the logger every 50
    steps, the values of all its histories are transferred together.
    """

    def __init__(self, hub: MessageHub, history: HistoryBuffer) -> None:
        super().__init__(*history.data, max_length=history.max_length)
        self.hub = hub
        self.pending: list[tuple[Scalar, int]] = []

    def update(self, log_val: Scalar, count: int = 1) -> None:
        self.pending.append((log_val, count))

    @property
    def data(self) -> tuple[np.ndarray, np.ndarray]:
        self.transfer()
        return super().data

    def mean(self, window_size: int | None = None) -> np.ndarray:
        self.transfer()
        return super().mean(window_size)

    def max(self, window_size: int | None = None) -> np.ndarray:
        self.transfer()
        return super().max(window_size)

    def min(self, window_size: int | None = None) -> np.ndarray:
        self.transfer()
        return super().min(window_size)

    def current(self) -> np.ndarray:
        self.transfer()
        return super().current()

    def statistics(self, method_name: str, *args: Any, **options: Any) -> Any:
        self.transfer()
        return super().statistics(method_name, *args, **options)

    def __reduce__(self) -> tuple[type[HistoryBuffer], tuple]:
        """Copies, as in checkpoints, are mmengine's."""
        return HistoryBuffer, (*self.data, self.max_length)

    def transfer(self) -> None:
        """Append the pending values; if there are tensors, to all histories of the hub."""
        histories = [self]
        if any(isinstance(value, Tensor) for value, _ in self.pending):
            histories = [h for h in self.hub.log_scalars.values() if isinstance(h, DeferredHistory)]
        numbers = in_python([value for history in histories for value, _ in history.pending])
        for history in histories:
            history.append([(next(numbers), count) for _, count in history.pending])
            history.pending = []

    def append(self, entries: list[tuple[int | float, int]]) -> None:
        """``HistoryBuffer.update`` for several values, without a copy of the history for each."""
        if not entries:
            return
        columns = zip(super().data, zip(*entries, strict=True), strict=True)
        # a history of integers keeps its type
        joined = [np.append(old, new) if len(old) else new for old, new in columns]
        kept = (column[-self.max_length :] for column in joined)
        super().__init__(*kept, max_length=self.max_length)


def log_scalar(hub: MessageHub, key: str, value: Scalar) -> None:
    """``hub.update_scalar`` that does not wait for a tensor."""
    if not isinstance(value, Tensor):
        hub.update_scalar(key, value)
        return
    assert value.numel() == 1, f'{key} has {value.numel()} values; it must have one'
    if key not in hub.log_scalars:
        hub.update_scalar(key, 0)  # so that mmengine saves it in checkpoints
        hub.log_scalars[key] = HistoryBuffer()
    defer(hub, [key])
    hub.log_scalars[key].update(value.detach().reshape(()).clone())  # the model may change it


def defer(hub: MessageHub, keys: Iterable[str]) -> None:
    """Defer histories of a hub."""
    for key in keys:
        history = hub.log_scalars[key]
        if type(history) is HistoryBuffer:
            hub.log_scalars[key] = DeferredHistory(hub, history)


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


@HOOKS.register_module()
class RuntimeInfoHook(StockRuntimeInfoHook):
    """mmengine's hook that logs losses and learning rates, without waiting for a GPU in every step.

    Use it in any config of mmengine:
    ``default_hooks = dict(runtime_info=dict(type='mmeffvit.RuntimeInfoHook'))``.
    """

    def after_train_iter(
        self,
        runner: Runner,
        batch_idx: int,
        data_batch: Any = None,
        outputs: Mapping[str, Any] | None = None,
    ) -> None:
        for key, value in (outputs or {}).items():
            log_scalar(runner.message_hub, f'train/{key}', value)
        defer(runner.message_hub, runner.message_hub.log_scalars)  # also those of other hooks
