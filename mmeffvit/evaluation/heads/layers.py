"""Attention layers with heads: those of this package, of torch and of mmcv.

:func:`heads_of` returns the heads of a module. A layer of another package registers a function for
its class, ``heads_of.register(CLASS)``; a layer of this package has a method ``head_outputs``, see
:mod:`mmeffvit.layers.head_outputs`.
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
from mmeffvit.utils.modules import outermost, select


class Heads(Protocol):
    """The heads of a layer, as hooks see them."""

    def hook(self, visit: Visit) -> RemovableHandle:
        """Call ``visit`` with the outputs of all heads in every forward pass."""

    def hook_maps(self, visit: Callable[[Tensor], None]) -> RemovableHandle | None:
        """Call ``visit`` with attention weights (B, heads, N); None for a layer without maps."""


@singledispatch
def heads_of(layer: nn.Module) -> Heads | None:
    """The heads of a module, or None if it has none."""
    if type(layer).__name__ == 'WindowMSA':  # mmdet, mmseg and mmpretrain each have one
        return ProjectedHeads(layer.proj, layer.num_heads, layer.softmax)
    return LayerHeads(layer) if hasattr(layer, 'head_outputs') else None


@heads_of.register
def _(layer: nn.MultiheadAttention) -> Heads:
    return TorchHeads(layer)


@heads_of.register
def _(layer: MultiScaleDeformableAttention) -> Heads:
    return ProjectedHeads(layer.output_proj, layer.num_heads)


def layers_with_heads(model: nn.Module, patterns: Sequence[str] = ()) -> dict[str, Heads]:
    """The heads of all attention layers by the names of the layers, in the order of the modules.

    Args:
        model: Any model.
        patterns: See :func:`mmeffvit.utils.modules.select`; all layers if empty.

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
    """Read the full maps of the heads, one image after the other."""
    if hasattr(layer, 'attention_maps'):
        visit(layer.attention_maps(*inputs).flatten(2))
        return
    for i in range(len(inputs[0])):
        visit(whole_maps(layer, *(x[i : i + 1] if isinstance(x, Tensor) else x for x in inputs)))


def whole_maps(layer: nn.Module, *inputs: Any) -> Tensor:
    """The maps of the heads of all query points for one image: (1, heads, N' N)."""
    sizes: list[tuple[int, int]] = []

    def first(size: tuple[int, int]) -> int:
        sizes.append(size)
        return 0

    readings = [layer.read_attention(inputs, first)]
    if sizes:
        rows, columns = sizes[0]
        locators = (lambda _, index=index: index for index in range(1, rows * columns))
        readings += [layer.read_attention(inputs, locate) for locate in locators]
    maps = [reading.arrays[reading.by_head].flatten(1) for reading in readings]
    return torch.cat(maps, dim=1)[None]


@dataclass(frozen=True)
class ProjectedHeads:
    """Heads whose concatenated outputs are the input of a projection.

    Args:
        projection: The module of the projection.
        count: The number of heads.
        softmax: The module that returns the maps, (windows, heads, N, N), in Swin's attention;
            deformable attention has no maps, since each head samples different points.
    """

    projection: nn.Module
    count: int
    softmax: nn.Module | None = None

    def hook(self, visit: Visit) -> RemovableHandle:
        outputs = HeadOutputs(self.projection, lambda _: self.count, axis=2, incoming=True)
        return outputs.hook(visit)

    def hook_maps(self, visit: Callable[[Tensor], None]) -> RemovableHandle | None:
        if self.softmax is None:
            return None
        return self.softmax.register_forward_hook(lambda _, __, x: visit(x.flatten(2)))


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
