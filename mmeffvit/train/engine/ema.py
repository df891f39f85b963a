"""EMA weights, updated together instead of one tensor at a time."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import torch
from mmengine.dist import all_reduce_params
from mmengine.hooks import CheckpointHook
from mmengine.hooks import EMAHook as StockEMAHook
from mmengine.model import BaseAveragedModel
from mmengine.runner import Runner
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from mmeffvit.registries import HOOKS

Place = tuple[nn.Module, str]  # a module, and the name of its parameter or buffer


@HOOKS.register_module()
class EMAHook(StockEMAHook):
    """mmengine's EMA hook with the same weights and checkpoints, faster.

    In every step, mmengine collects the state of the model and starts a kernel per tensor. Here,
    the tensors are found once per epoch and updated together, ``EMA += momentum * (weights - EMA)``
    with the momentum of the averaged model. Models with another average update themselves.
    Processes share the running statistics of norms before a validation and a checkpoint.

    Use it in any config of mmengine: ``custom_hooks = [dict(type='mmeffvit.EMAHook', ...)]``.
    """

    def before_train_epoch(self, runner: Runner) -> None:
        model = self.ema_model
        names = model.avg_parameters if is_linear(model) else {}
        self.groups = [
            (places(model.module, group), places(self.src_model, group))
            for group in grouped(model.module, names)
        ]
        found = sum(len(averaged) for averaged, _ in self.groups)
        self.is_known = found == sum(is_averaged(value) for value in names.values()) > 0

    def after_train_iter(
        self,
        runner: Runner,
        batch_idx: int,
        data_batch: Any = None,
        outputs: Mapping[str, Any] | None = None,
    ) -> None:
        if self.is_known and int(self.ema_model.steps) and self._ema_started(runner):
            self.update()
        else:  # mmengine starts it
            super().after_train_iter(runner, batch_idx, data_batch, outputs)
        if saves_now(runner):
            self.share_statistics()

    def update(self) -> None:
        model = self.ema_model
        steps = int(model.steps)
        if steps % model.interval == 0:
            average = get_ema_multi_avg_fn(1 - momentum_of(model))
            for averaged, sources in self.groups:
                own = tensors_at(averaged)
                average(own, tensors_at(sources, own[0].device), steps)
        if not model.update_buffers:
            pairs = zip(model.module.buffers(), self.src_model.buffers(), strict=True)
            for buffer, source in pairs:
                buffer.copy_(source)
        model.steps += 1

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
            all_reduce_params([each for each in model.buffers() if is_averaged(each)], op='mean')


def saves_now(runner: Runner) -> bool:
    """Whether a checkpoint is written after this step, not at the end of an epoch."""
    return any(
        isinstance(hook, CheckpointHook) and not hook.by_epoch
        and (hook.every_n_train_iters(runner, hook.interval, hook.save_begin)
             or (hook.save_last and hook.is_last_train_iter(runner)))
        for hook in runner.hooks
    )  # fmt: skip


def is_averaged(value: object) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def grouped(model: nn.Module, names: Mapping[str, object]) -> list[list[str]]:
    """Names of the averaged tensors of one type and device; a shared one is in several groups."""
    tensors = dict(model.named_parameters(remove_duplicate=False))
    tensors |= model.named_buffers(remove_duplicate=False)
    seen: Counter[int] = Counter()
    groups = defaultdict(list)
    for name, value in names.items():
        if is_averaged(value) and name in tensors:
            # mmengine updates it once under each of its names
            tensor = tensors[name]
            seen[id(tensor)] += 1
            groups[seen[id(tensor)], tensor.dtype, tensor.device].append(name)
    return list(groups.values())


def places(model: nn.Module, names: list[str]) -> list[Place]:
    """Places of the parameters and buffers of these names; hooks of a model may rename them."""
    modules = dict(model.named_modules(remove_duplicate=False))
    split = [name.rpartition('.') for name in names]
    found = [(modules.get(path), name) for path, _, name in split]
    return [(module, name) for module, name in found if hasattr(module, name)]


def tensors_at(found: list[Place], device: torch.device | None = None) -> list[Tensor]:
    """The tensors, on a device if one is given."""
    tensors = [getattr(module, name) for module, name in found]
    if device is None or tensors[0].device == device:
        return tensors
    return [tensor.detach().to(device) for tensor in tensors]


def momentum_of(model: BaseAveragedModel) -> float:
    """The share of the new weights in the next average."""
    average = torch.zeros((), dtype=torch.float64)
    model.avg_func(average, torch.ones_like(average), model.steps)
    return float(average)


def is_linear(model: BaseAveragedModel) -> bool:
    """Whether an average moves by the same share of each difference."""
    old = torch.linspace(-2, 2, 16, dtype=torch.float64)
    new = old.square() - 1
    expected = old.lerp(new, momentum_of(model))
    model.avg_func(old, new, model.steps)
    return torch.allclose(old, expected, rtol=1e-9, atol=1e-9)
