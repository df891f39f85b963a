"""Optimizer wrappers for mmengine with adaptive gradient clipping."""

from mmengine.optim import AmpOptimWrapper, OptimWrapper

from mmeffvit.registries import OPTIM_WRAPPERS
from mmeffvit.utils.optional import require


class AdaptiveClip:
    """Part of an optimizer wrapper: clips all gradients with timm, including the classifier's."""

    def __init__(self, *args: object, clip_factor: float, **options: object) -> None:
        super().__init__(*args, clip_grad=dict(clip_factor=clip_factor), **options)
        self.clip_func = require('timm.utils.agc').adaptive_clip_grad


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
