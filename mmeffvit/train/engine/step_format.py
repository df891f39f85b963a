"""Memory layout and precision of training steps."""

from contextlib import ExitStack
from typing import Any

import torch
from mmengine.device import get_device
from mmengine.hooks import Hook
from mmengine.optim import AmpOptimWrapper
from mmengine.runner import Runner
from torch import Tensor, nn

from mmeffvit.errors import UserError

from .launcher import unwrap

ROUNDED = 'bfloat16'


class StepFormatHook(Hook):
    """Compute training losses in channels_last or in bfloat16.

    Feature maps follow the layout of the images. Parameters and gradients keep their layout and
    precision.

    Args:
        channels_last: Whether images have this memory format; None for on CPUs, where most models
            train faster.
        amp_dtype: 'bfloat16' for autocast without a loss scale; None leaves the precision to the
            optimizer wrapper.

    Raises:
        UserError: If ``amp_dtype`` is another one, or the run is in mixed precision already.
    """

    priority = 'VERY_HIGH'  # before other hooks attach to the model

    def __init__(self, channels_last: bool | None = None, amp_dtype: str | None = None) -> None:
        if amp_dtype not in (None, ROUNDED):
            raise UserError(
                f'amp_dtype is {amp_dtype!r}: a config takes {ROUNDED!r}, and --amp is float16'
            )
        self.channels_last = get_device() == 'cpu' if channels_last is None else channels_last
        self.amp_dtype = amp_dtype
        self.entered = ExitStack()

    def before_train(self, runner: Runner) -> None:
        if self.amp_dtype and isinstance(runner.optim_wrapper, AmpOptimWrapper):
            raise UserError(f'amp_dtype is {ROUNDED!r}, but the config sets an AmpOptimWrapper')
        self.attach(unwrap(runner.model))

    def attach(self, model: nn.Module) -> None:
        """Compute the losses of a model in this format from now on."""
        self.handles = [
            model.register_forward_pre_hook(self.enter, with_kwargs=True),
            model.register_forward_hook(self.leave, always_call=True),  # also after an error
        ]

    def after_train(self, runner: Runner) -> None:
        for handle in self.handles:
            handle.remove()

    def enter(self, module: nn.Module, args: tuple, named: dict[str, Any]) -> Any:
        if not module.training or named.get('mode') != 'loss':
            return None
        if self.amp_dtype:
            device = next(module.parameters()).device.type
            self.entered.enter_context(torch.autocast(device, torch.bfloat16))
        if self.channels_last:
            args = tuple(map(to_channels_last, args))
            named = {name: to_channels_last(value) for name, value in named.items()}
        return args, named

    def leave(self, *_: Any) -> None:
        self.entered.close()


def to_channels_last(value: Any) -> Any:
    """A batch of images in channels_last; anything else unchanged."""
    is_images = isinstance(value, Tensor) and value.ndim == 4
    return value.contiguous(memory_format=torch.channels_last) if is_images else value
