"""The base of all attention layers: what the tools ask of one."""

from typing import Any

import torch
from torch import Tensor, nn

from .head_outputs import HeadOutputs
from .reading import Locate, Reading


class Attention(nn.Module):
    """An attention layer; one without maps or heads keeps these answers.

    Attributes:
        head_channels: Query channels of a head, of a layer whose heads can be removed.
    """

    head_channels: int | None = None

    @property
    def is_readable(self) -> bool:
        """Whether the layer has maps."""
        return type(self).read_attention is not Attention.read_attention

    def read_attention(self, inputs: tuple[Any, ...], locate: Locate) -> Reading:
        """Read the maps of a forward pass of one image.

        Args:
            inputs: The inputs of the forward.
            locate: Gives the query point; None for all.
        """
        raise NotImplementedError

    def attention_maps(self, *inputs: Any) -> Tensor:
        """The maps of all heads and all query points, (B, heads, N' N), image by image."""
        images = (
            [x[i : i + 1] if isinstance(x, Tensor) else x for x in inputs]
            for i in range(len(inputs[0]))
        )
        return torch.cat([self._maps_of(tuple(image)) for image in images])

    def _maps_of(self, inputs: tuple[Any, ...]) -> Tensor:
        sizes: list[tuple[int, int]] = []

        def first(size: tuple[int, int]) -> int:
            sizes.append(size)
            return 0

        readings = [self.read_attention(inputs, first)]
        if sizes:
            rows, columns = sizes[0]
            locators = (lambda _, index=index: index for index in range(1, rows * columns))
            readings += [self.read_attention(inputs, locate) for locate in locators]
        maps = [reading.arrays[reading.by_head].flatten(1) for reading in readings]
        return torch.cat(maps, dim=1)[None]

    def head_outputs(self) -> HeadOutputs | None:
        """Where the outputs of the heads are; None for a layer without several heads."""
        return None


def check_heads(channels: int, num_heads: int) -> None:
    """Raise a ValueError if channels cannot be divided into heads."""
    if num_heads < 1 or channels % num_heads:
        raise ValueError(f'{channels} channels are not divisible into {num_heads} heads')
