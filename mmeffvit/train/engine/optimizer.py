"""Optimizer wrappers for mmengine with adaptive gradient clipping."""

from collections.abc import Iterable

import torch
from mmengine.optim import AmpOptimWrapper, OptimWrapper
from torch import Tensor

from mmeffvit.registries import OPTIM_WRAPPERS

MIN_NORM = 1e-3  # of a unit's weights: those near zero could not grow otherwise
TINY = 1e-6


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
        options: Options of mmengine's wrapper, except ``clip_grad``.
    """


@OPTIM_WRAPPERS.register_module()
class AdaptiveClipAmpOptimWrapper(AdaptiveClip, AmpOptimWrapper):
    """mmengine's ``AmpOptimWrapper`` with adaptive gradient clipping."""
