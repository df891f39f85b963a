"""Compilation of parts of a model for training."""

from collections.abc import Sequence

import torch
from mmengine.hooks import Hook
from mmengine.runner import Runner

from mmeffvit.errors import UserError

from .launcher import unwrap

PARTS = ('backbone', 'neck')


class CompileHook(Hook):
    """Compile the training forward and backward of parts of a model with torch.compile.

    Heads, losses and assigners, whose shapes depend on the objects of an image, are not compiled.
    A part is compiled for the first image size, and once more, for any size, at the second one.
    Code that branches by size is compiled again up to torch's limit
    (``torch._dynamo.config.recompile_limit``, 8); further sizes run uncompiled, as does validation,
    which has its own sizes.

    Args:
        names: Attributes of the model; missing ones are skipped.
        backend: Backend of torch.compile.

    Raises:
        UserError: When training starts, if the model has none of them.
    """

    priority = 'LOW'  # after others have copied the model

    def __init__(self, names: Sequence[str] = PARTS, backend: str = 'inductor') -> None:
        self.names, self.backend = names, backend

    def before_train(self, runner: Runner) -> None:
        model = unwrap(runner.model)
        parts = [part for name in self.names if (part := getattr(model, name, None))]
        if not parts:
            raise UserError(
                f'{type(model).__name__} has no {" and no ".join(self.names)} to compile'
            )
        for part in parts:
            part.compile(backend=self.backend)

    def before_val(self, runner: Runner) -> None:
        torch.compiler.set_stance('force_eager')

    def after_val(self, runner: Runner) -> None:
        torch.compiler.set_stance('default')
