"""Attention layers with heads: those of this package, of torch and of mmcv.

:func:`heads_of` returns what is known of the heads of a module. A layer of another package takes
part by a function that is registered for its class, ``heads_of.register(CLASS)``; a layer of this
package by a method ``head_outputs``, see :mod:`mmeffvit.layers.head_outputs`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, singledispatch
from inspect import signature
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from mmcv.ops import MultiScaleDeformableAttention
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from mmeffvit.errors import UserError
from mmeffvit.layers.head_outputs import HeadOutputs, Visit
from mmeffvit.utils.patterns import select

POINTS = 4  # rows and columns of the grid of query points at which maps are compared


class Heads(Protocol):
    """The heads of a layer, as hooks see them."""

    def hook(self, visit: Visit) -> RemovableHandle:
        """Call ``visit`` with the outputs of all heads in every forward pass."""

    def hook_maps(self, visit: Callable[[Tensor], None]) -> RemovableHandle | None:
        """Call ``visit`` with attention weights (B, heads, N); None for a layer without maps."""


@singledispatch
def heads_of(layer: nn.Module) -> Heads | None:
    """The heads of a module, or None if it has none of its own."""
    return LayerHeads(layer) if hasattr(layer, 'head_outputs') else None


@heads_of.register
def _(layer: nn.MultiheadAttention) -> Heads:
    return TorchHeads(layer)


@heads_of.register
def _(layer: MultiScaleDeformableAttention) -> Heads:
    return DeformableHeads(layer)


def layers_with_heads(model: nn.Module, patterns: Sequence[str] = ()) -> dict[str, Heads]:
    """The heads of all attention layers by the names of the layers, in the order of the modules.

    Args:
        model: Any model.
        patterns: See :func:`mmeffvit.utils.patterns.select`; all layers if empty.

    Raises:
        UserError: If no layer has heads, or a pattern matches none.
    """
    found = {name: heads_of(module) for name, module in model.named_modules()}
    found = {name: heads for name, heads in found.items() if heads is not None}
    if not found:
        raise UserError(
            f'{type(model).__name__} has no attention layer with heads: choose a model with '
            'EfficientFormerV2, PVTv2, DeiT or their Mobile-Attention forms, or a DETR'
        )
    try:
        return select(found, patterns)
    except ValueError as error:
        raise UserError(f'--layers: {error}') from error


@dataclass(frozen=True)
class LayerHeads:
    """The heads of a layer of this package."""

    layer: nn.Module

    def hook(self, visit: Visit) -> RemovableHandle:
        return self.layer.head_outputs().hook(visit)

    def hook_maps(self, visit: Callable[[Tensor], None]) -> RemovableHandle | None:
        if not hasattr(self.layer, 'read_attention'):
            return None
        return self.layer.register_forward_pre_hook(partial(read_maps, visit=visit))


def read_maps(layer: nn.Module, inputs: tuple[Any, ...], visit: Callable[[Tensor], None]) -> None:
    """Read the maps of the heads of a grid of query points, one image after the other."""
    points = [(i, j) for i in range(POINTS) for j in range(POINTS)]
    for i in range(len(inputs[0])):
        image = tuple(x[i : i + 1] if isinstance(x, Tensor) else x for x in inputs)
        readings = [layer.read_attention(image, partial(cell, point)) for point in points]
        maps = [reading.arrays[reading.by_head].flatten(1) for reading in readings]
        visit(torch.cat(maps, dim=1)[None])


def cell(point: tuple[int, int], size: tuple[int, int]) -> int:
    """The row-major index of a point of the grid on a map."""
    row, column = ((2 * p + 1) * side // (2 * POINTS) for p, side in zip(point, size, strict=True))
    return row * size[1] + column


@dataclass(frozen=True)
class DeformableHeads:
    """The heads of deformable attention: each samples other points, so there are no maps."""

    layer: MultiScaleDeformableAttention

    def hook(self, visit: Visit) -> RemovableHandle:
        count = self.layer.num_heads
        place = HeadOutputs(self.layer.output_proj, lambda _: count, axis=2, incoming=True)
        return place.hook(visit)

    def hook_maps(self, visit: Callable[[Tensor], None]) -> None:
        return None


@dataclass(frozen=True)
class TorchHeads:
    """The heads of torch's attention, which has no module between them and the projection.

    They are recomputed from the attention weights that it returns on request.
    """

    layer: nn.MultiheadAttention

    def hook(self, visit: Visit) -> RemovableHandle:
        def replace(layer: Any, args: Any, kwargs: Any, output: Any) -> Any:
            weights, value = self.weights_and_value(args, kwargs)
            found = visit(weights @ value)  # (B, heads, N', D)
            if found is None:
                return None
            joined = layer.out_proj(found.transpose(1, 2).flatten(2))
            return (joined if layer.batch_first else joined.transpose(0, 1)), *output[1:]

        return self.layer.register_forward_hook(replace, with_kwargs=True)

    def hook_maps(self, visit: Callable[[Tensor], None]) -> RemovableHandle:
        def read(_: Any, args: Any, kwargs: Any) -> None:
            visit(self.weights_and_value(args, kwargs)[0].flatten(2))

        return self.layer.register_forward_pre_hook(read, with_kwargs=True)

    def weights_and_value(self, args: Any, kwargs: Any) -> tuple[Tensor, Tensor]:
        """The attention weights, (B, heads, N', N), and the values, (B, heads, N, D)."""
        layer = self.layer
        given = signature(layer.forward).bind(*args, **kwargs).arguments
        given |= dict(need_weights=True, average_attn_weights=False)
        _, weights = layer.forward(**given)  # not a call: its hooks would run again
        size = layer.embed_dim
        weight = layer.v_proj_weight if layer.in_proj_weight is None else layer.in_proj_weight
        bias = None if layer.in_proj_bias is None else layer.in_proj_bias[-size:]
        value = F.linear(given['value'], weight[-size:], bias)
        value = value if layer.batch_first else value.transpose(0, 1)
        return weights, value.unflatten(2, (layer.num_heads, -1)).transpose(1, 2)
