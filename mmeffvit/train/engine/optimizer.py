"""Optimizer wrappers for mmengine: steps over merged groups, and adaptive gradient clipping."""

import logging
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import torch
from mmengine.logging import print_log
from mmengine.optim import AmpOptimWrapper, DefaultOptimWrapperConstructor, OptimWrapper
from torch import Tensor, nn
from torch.optim import Optimizer

from mmeffvit.registries import OPTIM_WRAPPER_CONSTRUCTORS, OPTIM_WRAPPERS

from .scalars import log_scalar

MIN_NORM = 1e-3  # of a unit's weights: those near zero could not grow otherwise
TINY = 1e-6
FUSED = (torch.optim.AdamW, torch.optim.Adam, torch.optim.SGD, torch.optim.Adagrad)


@OPTIM_WRAPPER_CONSTRUCTORS.register_module()
class MergedOptimWrapperConstructor(DefaultOptimWrapperConstructor):
    """mmengine's constructor of optimizer wrappers, with a fused step over merged groups.

    With ``paramwise_cfg``, mmengine makes a group of every parameter, and the optimizer starts its
    kernels for each of them. Here, groups with equal settings are merged during a step. Between
    steps they are mmengine's, so learning-rate schedules, checkpoints and logs are the same with
    and without this constructor, and a run can be resumed in both directions.

    Use it in any config of mmengine::

        optim_wrapper = dict(constructor='mmeffvit.MergedOptimWrapperConstructor', ...)

    The optimizer is fused (one kernel per group) unless its settings say ``fused`` or ``foreach``,
    or its type or the device of the parameters does not support it.

    Args:
        optim_wrapper_cfg: Settings of the wrapper and of its optimizer, as for mmengine's.
        paramwise_cfg: Settings by parameter, as for mmengine's.
    """

    def __call__(self, model: nn.Module) -> OptimWrapper:
        wrapper = self.build_fused(model) or super().__call__(model)
        merge_in_steps(wrapper.optimizer)
        if wrapper.clip_grad_kwargs:
            wrapper.clip_func = without_waiting(wrapper)
        return wrapper

    def build_fused(self, model: nn.Module) -> OptimWrapper | None:
        """The wrapper with a fused optimizer, or None if that is not wanted or not supported."""
        settings = self.optimizer_cfg
        kind = settings['type']
        cls = getattr(torch.optim, kind, None) if isinstance(kind, str) else kind
        if cls not in FUSED or {'fused', 'foreach'} & settings.keys():
            return None
        self.optimizer_cfg = {**settings, 'fused': True}
        try:
            return super().__call__(model)
        except RuntimeError as error:  # torch says which parameters it does not support
            print_log(f'the optimizer is not fused: {error}', 'current', logging.INFO)
            return None
        finally:
            self.optimizer_cfg = settings


def without_waiting(wrapper: OptimWrapper) -> Callable[..., None]:
    """The wrapper's clipping, which does not wait for the norm that it logs, as mmengine does."""
    clip = wrapper.clip_func

    def clip_and_log(parameters: Sequence[nn.Parameter], **settings: Any) -> None:
        norm = clip(parameters, **settings)
        if norm is not None:
            log_scalar(wrapper.message_hub, f'train/{wrapper.grad_name}', norm)

    return clip_and_log


def merge_in_steps(optimizer: Optimizer) -> None:
    """Merge the groups of ``optimizer`` with equal settings during each of its steps."""
    own: list[list[dict[str, Any]]] = []

    def merge(optimizer: Optimizer, args: tuple, kwargs: Mapping[str, Any]) -> None:
        # a step that raised has left its merged groups
        groups = own.pop() if own else optimizer.param_groups
        own[:] = [groups]
        optimizer.param_groups = merged(groups)

    def restore(optimizer: Optimizer, args: tuple, kwargs: Mapping[str, Any]) -> None:
        optimizer.param_groups = own.pop()

    optimizer.register_step_pre_hook(merge)
    optimizer.register_step_post_hook(restore)


def merged(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Groups with distinct settings, in the order of their first parameters."""
    distinct: dict[Hashable, dict[str, Any]] = {}
    for group in groups:
        settings = group.copy()
        parameters = settings.pop('params')
        # a tensor as learning rate is equal to itself only; a config may have lists
        key = tuple((k, tuple(v) if isinstance(v, list) else v) for k, v in settings.items())
        distinct.setdefault(key, {**settings, 'params': []})['params'] += parameters
    return list(distinct.values())


def unit_norms(x: Tensor) -> Tensor:
    """The norm of the weights of every output unit, with a shape that broadcasts with ``x``."""
    dims = tuple(range(1, x.ndim)) or None
    return torch.linalg.vector_norm(x, dim=dims, keepdim=True)


@torch.no_grad()
def clip_units(parameters: Iterable[Tensor], max_norm: float) -> None:
    """Shrink gradients of units, in place, to ``max_norm`` times the norm of the unit's weights."""
    for parameter in parameters:
        largest = unit_norms(parameter).clamp(min=MIN_NORM) * max_norm
        norms = unit_norms(parameter.grad)
        scale = torch.where(norms > largest, largest / norms.clamp(min=TINY), 1.0)
        parameter.grad.mul_(scale)


class AdaptiveClip:
    """Part of an optimizer wrapper: clips all gradients, including the classifier's."""

    def __init__(self, *args: object, clip_factor: float, **options: object) -> None:
        super().__init__(*args, clip_grad=dict(max_norm=clip_factor), **options)
        self.clip_func = clip_units


@OPTIM_WRAPPERS.register_module()
class AdaptiveClipOptimWrapper(AdaptiveClip, OptimWrapper):
    """mmengine's ``OptimWrapper`` with adaptive gradient clipping of arXiv:2102.06171.

    ``--amp`` selects :class:`AdaptiveClipAmpOptimWrapper`.

    Args:
        clip_factor: Largest norm of a gradient, relative to the weights, unit by unit.
        options: Those of mmengine's wrapper, but ``clip_grad``.
    """


@OPTIM_WRAPPERS.register_module()
class AdaptiveClipAmpOptimWrapper(AdaptiveClip, AmpOptimWrapper):
    """mmengine's ``AmpOptimWrapper`` with adaptive gradient clipping."""
