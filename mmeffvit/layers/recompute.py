"""Fewer maps in memory: activations are made again in backward, and are in place in inference."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from .conv import ConvNorm

IN_PLACE: dict[type[nn.Module], Callable[[Any, Tensor], Tensor]] = {
    nn.GELU: lambda act, x: torch.ops.aten.gelu_(x, approximate=act.approximate),
    nn.SiLU: lambda act, x: F.silu(x, inplace=True),
    nn.ReLU: lambda act, x: F.relu(x, inplace=True),
}
_active: ContextVar[bool] = ContextVar('active', default=True)


@contextmanager
def activations_kept() -> Iterator[None]:
    """Keep activations as torch does, for instance where whole blocks are made again already."""
    token = _active.set(False)
    try:
        yield
    finally:
        _active.reset(token)


def conv_of(act: nn.Module, conv: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """``conv(act(x))`` that keeps ``x`` for backward but not ``act(x)``, which is made again.

    Torch would keep both: the activation needs its input and the convolution its own. The
    gradients are the same. In mixed precision, where the convolution keeps a copy in another type,
    nothing is saved.

    Args:
        act: A GELU or SiLU; a ReLU keeps its output and not its input, so it saves nothing.
        conv: The convolution, or what else takes the activation.
        x: The input of the activation, which nobody else may need: without gradients the output
            takes its place.
    """
    activated = activate(act, x)
    if not worth_it(act, x):
        return conv(activated)
    address, shape, kept = activated.data_ptr(), activated.shape, x.detach()

    def pack(tensor: Tensor) -> Tensor | None:
        same = tensor.data_ptr() == address and tensor.shape == shape
        return None if same else tensor

    def unpack(packed: Tensor | None) -> Tensor:
        return act(kept) if packed is None else packed

    with saved_tensors_hooks(pack, unpack):
        return conv(activated)


def activate(act: nn.Module, x: Tensor) -> Tensor:
    """``act(x)``, in place of ``x`` where there are no gradients."""
    in_place = IN_PLACE.get(type(act))
    if in_place is None or torch.compiler.is_compiling() or x.requires_grad:
        return act(x)
    return in_place(act, x)


def worth_it(act: nn.Module, x: Tensor) -> bool:
    return (
        not torch.compiler.is_compiling()  # the compiler decides itself what to make again
        and _active.get()
        and x.requires_grad
        and torch.is_grad_enabled()
        and not isinstance(act, nn.ReLU)
    )


def chain(x: Tensor, *layers: nn.Module) -> Tensor:
    """Run layers one after another; the activations before convolutions are not kept.

    Args:
        x: The input of the first layer; if that is an activation, nobody else may need it.
        layers: Activations, :class:`ConvNorm` and what else is called with one map.
    """
    act: nn.Module | None = None
    for layer in layers:
        if type(layer) in IN_PLACE:
            act = layer
            continue
        conv = layer.conv if isinstance(layer, ConvNorm) else layer
        x = conv(x) if act is None else conv_of(act, conv, x)
        act = None
        if isinstance(layer, ConvNorm):
            x = layer.norm(x)
            act = getattr(layer, 'act', None)
    return x if act is None else activate(act, x)
