"""Attention layers with heads, from this package, torch and mmcv.

:func:`heads_of` returns the heads of a module. A layer of another package registers a function for
its class, ``heads_of.register(CLASS)``; a layer of this package is an
:class:`mmeffvit.models.layers.base_attention.Attention`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, singledispatch
from inspect import signature
from typing import Any

import torch.nn.functional as F
from mmcv.ops import MultiScaleDeformableAttention
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from mmeffvit.errors import UserError
from mmeffvit.models.layers.base_attention import Attention
from mmeffvit.models.layers.head_outputs import HeadOutputs, Visit
from mmeffvit.utils.modules import outermost, select

Hook = Callable[[Visit], RemovableHandle]


@dataclass(frozen=True)
class Heads:
    """The heads of a layer: hooks that call a function in every forward pass."""

    hook: Hook  # with the outputs of all heads
    hook_maps: Hook | None = None  # with attention weights (B, heads, N), if it has any


@singledispatch
def heads_of(layer: nn.Module) -> Heads | None:
    """The heads of a module, or None if it has none."""
    if type(layer).__name__ == 'WindowMSA':  # mmdet, mmseg and mmpretrain each have one
        return Heads(
            projected(layer.proj, layer.num_heads),
            # (windows, heads, N, N)
            lambda visit: layer.softmax.register_forward_hook(lambda _, __, x: visit(x.flatten(2))),
        )
    return None


@heads_of.register
def _(layer: Attention) -> Heads | None:
    outputs = layer.head_outputs()
    if outputs is None:
        return None

    def hook_maps(visit: Visit) -> RemovableHandle:
        def read(_: nn.Module, inputs: tuple[Any, ...]) -> None:
            visit(layer.attention_maps(*inputs))

        return layer.register_forward_pre_hook(read)

    return Heads(outputs.hook, hook_maps if layer.is_readable else None)


@heads_of.register
def _(layer: nn.MultiheadAttention) -> Heads:
    return Heads(partial(hook_outputs, layer), partial(hook_weights, layer))


@heads_of.register
def _(layer: MultiScaleDeformableAttention) -> Heads:
    # without maps: each head samples different points
    return Heads(projected(layer.output_proj, layer.num_heads))


def projected(projection: nn.Module, count: int) -> Hook:
    """A hook of ``count`` heads whose concatenated outputs are the input of a projection."""
    return HeadOutputs(projection, lambda _: count, axis=2, incoming=True).hook


def layers_with_heads(model: nn.Module, patterns: Sequence[str] = ()) -> dict[str, Heads]:
    """The heads of all attention layers, or of those that match a pattern, by name.

    Raises:
        UserError: If no layer has heads, or a pattern matches none.
    """
    found = {name: heads_of(module) for name, module in model.named_modules()}
    found = outermost({name: heads for name, heads in found.items() if heads is not None})
    if not found:
        raise UserError(
            f'{type(model).__name__} has no attention layer with heads: choose a model with '
            'EfficientFormerV2, PVTv2, DeiT or their Mobile-Attention forms, or a DETR'
        )
    return select(found, patterns)


def hook_outputs(layer: nn.MultiheadAttention, visit: Visit) -> RemovableHandle:
    """Call ``visit`` with the outputs of the heads of torch's attention.

    No module is between them and the projection: they are recomputed from the attention weights
    that the layer returns on request.
    """

    def replace(_: Any, args: Any, kwargs: Any, output: Any) -> Any:
        weights, value = weights_and_value(layer, args, kwargs)
        found = visit(weights @ value)  # (B, heads, N', D)
        if found is None:
            return None
        joined = layer.out_proj(found.transpose(1, 2).flatten(2))
        return (joined if layer.batch_first else joined.transpose(0, 1)), *output[1:]

    return layer.register_forward_hook(replace, with_kwargs=True)


def hook_weights(layer: nn.MultiheadAttention, visit: Visit) -> RemovableHandle:
    def read(_: Any, args: Any, kwargs: Any) -> None:
        visit(weights_and_value(layer, args, kwargs)[0].flatten(2))

    return layer.register_forward_pre_hook(read, with_kwargs=True)


def weights_and_value(
    layer: nn.MultiheadAttention, args: Any, kwargs: Any
) -> tuple[Tensor, Tensor]:
    """The attention weights, (B, heads, N', N), and the values, (B, heads, N, D)."""
    given = signature(layer.forward).bind(*args, **kwargs).arguments
    given |= dict(need_weights=True, average_attn_weights=False)
    _, weights = layer.forward(**given)  # not a call: its hooks would run again
    size = layer.embed_dim
    weight = layer.v_proj_weight if layer.in_proj_weight is None else layer.in_proj_weight
    bias = None if layer.in_proj_bias is None else layer.in_proj_bias[-size:]
    value = F.linear(given['value'], weight[-size:], bias)
    value = value if layer.batch_first else value.transpose(0, 1)
    return weights, value.unflatten(2, (layer.num_heads, -1)).transpose(1, 2)
