"""The head outputs of an attention layer, to be read or set to zero.

:meth:`mmeffvit.models.layers.base_attention.Attention.head_outputs` returns a :class:`HeadOutputs`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

# gets the outputs of all heads, (B, heads, ...), and may return others in their place
Visit = Callable[[Tensor], Tensor | None]


@dataclass(frozen=True)
class HeadOutputs:
    """The tensor in which the outputs of all heads are concatenated, in order."""

    module: nn.Module  # returns the tensor, or gets it as its first input
    count: Callable[[tuple[Tensor, ...]], int]  # of heads, from the inputs of the module
    axis: int = 1  # of the channels
    incoming: bool = False  # whether the tensor is the input of the module
    size: int | None = None  # channels of the heads, which are the first ones; None for all

    def hook(self, visit: Visit) -> RemovableHandle:
        """Call ``visit`` with the outputs of the heads in every forward pass."""

        def changed(x: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | None:
            size = self.size or x.shape[self.axis]
            own, others = x.split((size, x.shape[self.axis] - size), dim=self.axis)
            heads = own.unflatten(self.axis, (self.count(inputs), -1)).movedim(self.axis, 1)
            found = visit(heads)
            if found is None:
                return None
            own = found.movedim(1, self.axis).flatten(self.axis, self.axis + 1)
            return torch.cat((own, others), dim=self.axis)

        def before(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
            found = changed(inputs[0], inputs)
            return None if found is None else (found, *inputs[1:])

        if self.incoming:
            return self.module.register_forward_pre_hook(before)
        return self.module.register_forward_hook(lambda _, inputs, x: changed(x, inputs))


def keep_only(head: int) -> Visit:
    """Set the outputs of all other heads to zero."""

    def visit(heads: Tensor) -> Tensor:
        kept = heads.select(1, head)
        return torch.zeros_like(heads).select_scatter(kept, 1, head)

    return visit


def remove(head: int) -> Visit:
    """Set the output of a head to zero."""

    def visit(heads: Tensor) -> Tensor:
        return heads.index_fill(1, torch.tensor([head], device=heads.device), 0)

    return visit
