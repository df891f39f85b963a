"""Removable units of layers: attention heads, and hidden units of feed-forward layers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from .base_attention import Attention


@dataclass(frozen=True)
class Units:
    """Units of a layer in the channels between its modules, in order: heads, or hidden units."""

    # the modules that return channels of the units, each with the number of maps that it returns
    # concatenated: keys and values together are two; of heads, the queries are first
    projections: tuple[tuple[nn.Module, int], ...]
    out: nn.Module  # gets the outputs of the units
    # the layer of the heads, which can be removed if it has ``head_channels`` and no weights
    mixer: Attention | None = None

    @property
    def count(self) -> int:
        """The number of units."""
        module, maps = self.projections[0]
        channels = 1 if self.mixer is None else self.mixer.head_channels  # of a unit in a map
        return len(_layer_of(module).weight) // (maps * channels)

    def keep(self, units: Sequence[int]) -> None:
        """Remove all other units, in place: all modules get fewer channels."""
        count = self.count
        for module, maps in self.projections:
            size = len(_layer_of(module).weight)
            _keep_outputs(module, _channels(size, count, units, maps))
        out = _layer_of(self.out)
        _keep(out, 1, _channels(out.weight.shape[1], count, units), ('weight',))
        _set_size(out, 'in', out.weight.shape[1])

    def columns(self) -> Tensor:
        """The weights of the last module by unit: (units, ...)."""
        weight = _layer_of(self.out).weight.detach()
        return weight.transpose(0, 1).unflatten(0, (self.count, -1))


def layers_with_units(model: nn.Module) -> dict[str, Units]:
    """The units of all layers that have ``prunable_units``, by name."""
    named = model.named_modules()
    return {n: layer.prunable_units() for n, layer in named if hasattr(layer, 'prunable_units')}


def prunable_layers(model: nn.Module) -> dict[str, Units]:
    """The layers of a model whose heads can be removed, by name, in the order of its modules."""
    return {
        name: layer
        for name, layer in layers_with_units(model).items()
        if layer.mixer is not None
        and layer.mixer.head_channels
        and not list(layer.mixer.parameters())
    }


def hidden_layers(model: nn.Module) -> dict[str, Units]:
    """The feed-forward layers whose hidden units can be removed, as :func:`prunable_layers`."""
    found = layers_with_units(model).items()
    return {name: layer for name, layer in found if layer.mixer is None}


def keep_first(layers: Mapping[str, Units], counts: Sequence[int], argument: str) -> None:
    """Remove all but the first units of every layer, in place, for weights of a pruned model."""
    present = [layer.count for layer in layers.values()]
    pairs = zip(counts, present, strict=False)
    if len(counts) != len(present) or any(not 1 <= n <= units for n, units in pairs):
        what = 'heads' if argument == 'kept_heads' else 'hidden units'
        raise ValueError(
            f'{argument} is {tuple(counts)}; give one number for each layer whose {what} can be '
            f'removed, from 1 to its number of {what}: {tuple(present)}'
        )
    for layer, number in zip(layers.values(), counts, strict=True):
        layer.keep(range(number))


def _layer_of(module: nn.Module) -> nn.Conv2d | nn.Linear:
    """The layer of a projection, which may have a norm."""
    return next(part for part in module.modules() if isinstance(part, nn.Conv2d | nn.Linear))


def _set_size(layer: nn.Conv2d | nn.Linear, side: str, size: int) -> None:
    """Note the number of channels of the inputs ('in') or outputs ('out')."""
    setattr(layer, f'{side}_{"channels" if isinstance(layer, nn.Conv2d) else "features"}', size)


def _channels(size: int, count: int, units: Sequence[int], maps: int = 1) -> list[int]:
    """The channels of some units, for ``maps`` times ``count`` units in ``size`` channels."""
    own = size // (maps * count)
    starts = [(i * count + unit) * own for i in range(maps) for unit in units]
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
