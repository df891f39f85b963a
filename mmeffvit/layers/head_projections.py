"""The projections of the heads of an attention layer, from which heads can be removed.

A module with the projections of the heads of a mixer has a method ``head_projections()`` that
returns :class:`HeadProjections`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


@dataclass(frozen=True)
class HeadProjections:
    """The modules around a layer whose channels are divided into its heads, in order.

    Args:
        mixer: The layer. Its heads can be removed if it has ``head_channels``, the query channels
            of a head, and no weights of its own.
        projections: The modules that return channels of the heads, each with the number of maps
            that it returns concatenated: keys and values together are two. The first has the
            queries.
        out: The module that gets the outputs of the heads.
    """

    mixer: nn.Module
    projections: tuple[tuple[nn.Module, int], ...]
    out: nn.Module

    @property
    def count(self) -> int:
        """The number of heads."""
        module, maps = self.projections[0]
        return len(_layer_of(module).weight) // (maps * self.mixer.head_channels)

    def keep(self, heads: Sequence[int]) -> None:
        """Remove all other heads, in place: all modules get fewer channels."""
        count = self.count
        for module, maps in self.projections:
            size = len(_layer_of(module).weight)
            _keep_outputs(module, _channels(size, count, heads, maps))
        out = _layer_of(self.out)
        _keep(out, 1, _channels(out.weight.shape[1], count, heads), ('weight',))
        _set_size(out, 'in', out.weight.shape[1])

    def columns(self) -> Tensor:
        """The weights of the output projection by head: (heads, ...)."""
        weight = _layer_of(self.out).weight.detach()
        return weight.transpose(0, 1).unflatten(0, (self.count, -1))


def prunable_layers(model: nn.Module) -> dict[str, HeadProjections]:
    """The layers of a model whose heads can be removed, by name, in the order of its modules."""
    found = {
        name: module.head_projections()
        for name, module in model.named_modules()
        if hasattr(module, 'head_projections')
    }
    return {
        name: layer
        for name, layer in found.items()
        if hasattr(layer.mixer, 'head_channels') and not list(layer.mixer.parameters())
    }


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


def _layer_of(module: nn.Module) -> nn.Conv2d | nn.Linear:
    """The layer of a projection, which may have a norm."""
    return next(part for part in module.modules() if isinstance(part, nn.Conv2d | nn.Linear))


def _set_size(layer: nn.Conv2d | nn.Linear, side: str, size: int) -> None:
    """Note the number of channels of the inputs ('in') or outputs ('out')."""
    setattr(layer, f'{side}_{"channels" if isinstance(layer, nn.Conv2d) else "features"}', size)


def _channels(size: int, count: int, heads: Sequence[int], maps: int = 1) -> list[int]:
    """The channels of some heads, for ``maps`` times ``count`` heads in ``size`` channels."""
    own = size // (maps * count)
    starts = [(i * count + head) * own for i in range(maps) for head in heads]
    return [channel for start in starts for channel in range(start, start + own)]


def _keep_outputs(module: nn.Module, index: list[int]) -> None:
    for part in module.modules():
        if isinstance(part, nn.Conv2d | nn.Linear):
            _keep(part, 0, index, ('weight', 'bias'))
            _set_size(part, 'out', len(index))
            if getattr(part, 'groups', 1) > 1:  # depth-wise
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
