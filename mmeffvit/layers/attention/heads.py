"""The heads of an attention layer: their outputs, to be read or set to zero, and their removal.

A layer with heads has a method ``head_outputs()`` that returns a :class:`HeadOutputs`. A module
with the projections of heads that can be removed has a method ``head_projections()`` that returns
:class:`HeadProjections`, or None if its heads cannot.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.hooks import RemovableHandle

# gets the outputs of all heads, (B, heads, ...), and may return others in their place
Visit = Callable[[Tensor], Tensor | None]


@dataclass(frozen=True)
class HeadOutputs:
    """The tensor in which the outputs of all heads are concatenated, in order.

    Args:
        module: The module that returns the tensor, or gets it as its first input.
        count: The number of heads, from the inputs of the module.
        axis: The axis of the channels.
        incoming: Whether the tensor is the input of the module.
    """

    module: nn.Module
    count: Callable[[tuple[Tensor, ...]], int]
    axis: int = 1
    incoming: bool = False

    def hook(self, visit: Visit) -> RemovableHandle:
        """Call ``visit`` with the outputs of the heads in every forward pass."""

        def changed(x: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | None:
            heads = x.unflatten(self.axis, (self.count(inputs), -1)).movedim(self.axis, 1)
            found = visit(heads)
            if found is None:
                return None
            return found.movedim(1, self.axis).flatten(self.axis, self.axis + 1)

        def before(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
            found = changed(inputs[0], inputs)
            return None if found is None else (found, *inputs[1:])

        if self.incoming:
            return self.module.register_forward_pre_hook(before)
        return self.module.register_forward_hook(lambda _, inputs, x: changed(x, inputs))


def without(head: int) -> Visit:
    """Set the output of a head to zero."""

    def visit(heads: Tensor) -> Tensor:
        return heads.index_fill(1, torch.tensor([head], device=heads.device), 0)

    return visit


@dataclass(frozen=True)
class HeadProjections:
    """The modules around a layer whose channels are divided into its heads, in order.

    Args:
        mixer: The layer; it has ``head_channels``, the query channels of a head.
        query: The module that returns the queries.
        others: Modules that return other channels of the heads, each with the number of maps that
            it returns concatenated: keys and values together are two.
        out: The module that gets the outputs of the heads; of its input, other channels may follow.
    """

    mixer: nn.Module
    query: nn.Module
    others: tuple[tuple[nn.Module, int], ...]
    out: nn.Module

    @property
    def count(self) -> int:
        """The number of heads."""
        return _conv_of(self.query).out_channels // self.mixer.head_channels

    def keep(self, heads: Sequence[int]) -> None:
        """Remove all other heads, in place: all modules get fewer channels."""
        count = self.count
        for module, maps in ((self.query, 1), *self.others):
            _keep_outputs(module, _channels(_conv_of(module).out_channels, count, heads, maps))
        out = _conv_of(self.out)
        _keep(out, 1, _channels(out.in_channels, count, heads), ('weight',))
        out.in_channels = out.weight.shape[1]

    def columns(self) -> Tensor:
        """The weights of the output projection by head: (heads, ...)."""
        weight = _conv_of(self.out).weight.detach()
        return weight.transpose(0, 1).unflatten(0, (self.count, -1))


def prunable_layers(model: nn.Module) -> dict[str, HeadProjections]:
    """The layers of a model whose heads can be removed, by name, in the order of its modules."""
    methods = {
        name: module.head_projections
        for name, module in model.named_modules()
        if hasattr(module, 'head_projections')
    }
    found = {name: method() for name, method in methods.items()}
    return {name: projections for name, projections in found.items() if projections is not None}


def keep_first_heads(model: nn.Module, counts: Sequence[int]) -> None:
    """Remove all but the first heads of every layer, for weights of a pruned model.

    Args:
        model: The model, changed in place.
        counts: The number of heads of each layer of :func:`prunable_layers`.

    Raises:
        ValueError: If there is another number of layers, or a layer has fewer heads.
    """
    layers = prunable_layers(model).values()
    present = [layer.count for layer in layers]
    pairs = zip(counts, present, strict=False)
    if len(counts) != len(present) or any(not 1 <= n <= heads for n, heads in pairs):
        raise ValueError(
            f'kept_heads is {tuple(counts)}; give one number for each layer whose heads can be '
            f'removed, from 1 to its number of heads: {tuple(present)}'
        )
    for layer, number in zip(layers, counts, strict=True):
        layer.keep(range(number))


def _conv_of(module: nn.Module) -> nn.Conv2d:
    """The convolution of a projection, which may have a norm."""
    return next(part for part in module.modules() if isinstance(part, nn.Conv2d))


def _channels(size: int, count: int, heads: Sequence[int], maps: int = 1) -> list[int]:
    """The channels of some heads, for ``maps`` times ``count`` heads in ``size`` channels."""
    own = size // (maps * count)
    starts = [(i * count + head) * own for i in range(maps) for head in heads]
    return [channel for start in starts for channel in range(start, start + own)]


def _keep_outputs(module: nn.Module, index: list[int]) -> None:
    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            _keep(part, 0, index, ('weight', 'bias'))
            part.out_channels = len(index)
            if part.groups > 1:  # depth-wise
                part.in_channels = part.groups = len(index)
        elif isinstance(part, _BatchNorm):
            _keep(part, 0, index, ('weight', 'bias', 'running_mean', 'running_var'))
            part.num_features = len(index)


def _keep(module: nn.Module, dim: int, index: list[int], names: tuple[str, ...]) -> None:
    for name in names:
        value = getattr(module, name)
        if value is None:
            continue
        kept = value.detach().index_select(dim, torch.tensor(index, device=value.device))
        if isinstance(value, nn.Parameter):
            kept = nn.Parameter(kept, requires_grad=value.requires_grad)
        setattr(module, name, kept)
