"""Convolutions for inference on CPUs: weights laid out for oneDNN, activation and sum inside."""

from typing import Any

import torch
from torch import Tensor, nn

# of oneDNN, which computes the exact GELU for 'none'
ACTIVATIONS = {nn.ReLU: ('relu', ''), nn.GELU: ('gelu', 'none'), nn.SiLU: ('swish', '')}


class PackedConv2d(nn.Module):
    """A convolution with its activation, or with a sum, as one step of oneDNN in float32.

    The weights are laid out for the size of the first input, and anew when another size comes.
    Outputs are channels-last. There is no gradient, and no graph to export.

    Args:
        conv: Where the weights come from.
        act: Its activation: `ReLU`, `SiLU` or exact `GELU`; None for none.

    Shape:
        (B, in_channels, H, W), and with ``other`` (B, out_channels, H', W') that is added to the
        result instead of the activation -> (B, out_channels, H', W').
    """

    def __init__(self, conv: nn.Conv2d, act: nn.Module | None = None) -> None:
        super().__init__()
        self.register_buffer('weight', conv.weight.detach())
        self.register_buffer('bias', None if conv.bias is None else conv.bias.detach())
        self.geometry = (
            list(conv.padding), list(conv.stride), list(conv.dilation), conv.groups
        )  # fmt: skip
        self.act = act
        self._packed: tuple[torch.Size, Tensor] | None = None

    def forward(self, x: Tensor, other: Tensor | None = None) -> Tensor:
        x = x.contiguous(memory_format=torch.channels_last)
        weight = self._weight_for(x.shape)
        ops = torch.ops.mkldnn
        if other is None:
            act, variant = ACTIVATIONS[type(self.act)] if self.act else ('none', '')
            return ops._convolution_pointwise(
                x, weight, self.bias, *self.geometry, act, [], variant
            )
        assert self.act is None
        other = other.contiguous(memory_format=torch.channels_last)
        return ops._convolution_pointwise.binary(
            x, other, weight, self.bias, *self.geometry, 'add', 1.0, None, [], None
        )

    def _weight_for(self, shape: torch.Size) -> Tensor:
        packed = self._packed  # read and set at once: threads may share the module
        if packed is None or packed[0] != shape:
            weight = torch.ops.mkldnn._reorder_convolution_weight(
                self.weight, *self.geometry, list(shape)
            )
            self._packed = packed = (shape, weight)
        return packed[1]

    def __getstate__(self) -> dict[str, Any]:
        # what is laid out cannot be copied or saved, and is made again
        return {**self.__dict__, '_packed': None}

    def extra_repr(self) -> str:
        return f'{tuple(self.weight.shape)}, {self.geometry}'


def conv_add(conv: nn.Module, x: Tensor, other: Tensor) -> Tensor:
    """``conv(x) + other``, as one step where the convolution is packed."""
    if isinstance(conv, PackedConv2d):
        return conv(x, other)
    return conv(x) + other


class ResidualBranch(nn.Module):
    """``x + project(hidden(x))``: what is left of a block whose norms and scales are folded.

    Args:
        hidden: All of the branch but its last convolution.
        project: The last convolution of the branch.

    Shape:
        (B, C, H, W) -> (B, C, H, W).
    """

    def __init__(self, hidden: nn.Module, project: nn.Module) -> None:
        super().__init__()
        self.hidden = hidden
        self.project = project

    def forward(self, x: Tensor) -> Tensor:
        return conv_add(self.project, self.hidden(x), x)


def split_last(module: nn.Module, name: str) -> ResidualBranch:
    """The residual branch of ``module``, whose last step is the convolution called ``name``."""
    project = getattr(module, name)
    setattr(module, name, nn.Identity())
    return ResidualBranch(module, project)
