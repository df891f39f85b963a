"""Attention maps of a forward pass, recorded by temporary hooks, and positions of their cells."""

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn

from mmeffvit.errors import UserError
from mmeffvit.models.layers.base_attention import Attention
from mmeffvit.models.layers.reading import Reading
from mmeffvit.utils.modules import outermost, select

STRIDES = (1, 2, 4, 8, 16, 32, 64, 128)  # pixels


def pitch(side: int, cells: int) -> float:
    """Pixels per cell of a map with ``cells`` along a side of the network's input.

    The stride that gives this number of cells, rounded up, if any. MobileViTv2 resizes odd maps to
    the next even number of cells, which divide the side evenly.
    """
    return next((s for s in STRIDES if -(-side // s) == cells), side / cells)


@dataclass(frozen=True)
class Canvas:
    """The input of the network including padding, in pixels.

    Args:
        query: x and y of a query point, or None.

    Raises:
        ValueError: If the query point is outside.
    """

    height: int
    width: int
    query: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.query is None:
            return
        x, y = self.query
        if not (0 <= x < self.width and 0 <= y < self.height):
            raise ValueError(
                f'query is {self.query}; choose x in [0, {self.width}) and y in [0, {self.height})'
            )

    def pitches(self, grid: tuple[int, int]) -> tuple[float, float]:
        """Height and width of a cell in pixels."""
        return pitch(self.height, grid[0]), pitch(self.width, grid[1])

    def stride(self, grid: tuple[int, int]) -> int:
        """The power of two closest to the size of a cell."""
        return 2 ** round(math.log2(max(self.pitches(grid))))

    def query_index(self, grid: tuple[int, int]) -> int:
        """The row-major index of the cell with the query point."""
        x, y = self.query
        row, column = (
            min(int(place / size), cells - 1)
            for place, size, cells in zip((y, x), self.pitches(grid), grid, strict=True)
        )
        return row * grid[1] + column


def attention_layers(model: nn.Module, patterns: Sequence[str] = ()) -> dict[str, Attention]:
    """The attention layers of ``model`` by name, in the order of its modules.

    They are the outermost :class:`mmeffvit.models.layers.base_attention.Attention` with maps.

    Args:
        model: A backbone, or any model around one.
        patterns: Select layers, see :func:`mmeffvit.utils.modules.select`; all if empty.

    Raises:
        UserError: If the model has no attention layer of this package, or a pattern matches none.
    """
    modules = dict(model.named_modules())
    layers = outermost(
        {n: m for n, m in modules.items() if isinstance(m, Attention) and m.is_readable}
    )
    if not layers:
        raise UserError(
            f'{type(model).__name__} has no attention layer: no module of it has read_attention'
        )
    return select(layers, patterns)


@contextmanager
def record_attention(
    model: nn.Module, canvas: Canvas, patterns: Sequence[str] = ()
) -> Iterator[dict[str, Reading]]:
    """Record the maps of every forward pass inside the context, with one image at a time.

    Maps are recomputed from the inputs of the layers, since layers do not store them. The hooks are
    removed when the context ends, even after an error.

    Args:
        model: A backbone, or any model around one, in eval mode.
        canvas: Size of the input and the query point.
        patterns: Layers to record, see :func:`attention_layers`.

    Yields:
        The readings of the last pass by layer name, in the order of execution.

    Raises:
        UserError: If no layer matches.
        ValueError: If a layer is in train mode or gets several images.
    """
    readings: dict[str, Reading] = {}
    locate = None if canvas.query is None else canvas.query_index

    @torch.no_grad()
    def record(name: str, layer: Attention, inputs: tuple[Tensor, ...]) -> None:
        if layer.training:
            raise ValueError(
                f'{name} is in train mode, where recording has side effects; call eval()'
            )
        if len(inputs[0]) != 1:
            raise ValueError(f'the batch has {len(inputs[0])} images; give one at a time')
        reading = layer.read_attention(inputs, locate)
        readings.pop(name, None)  # for the order of this pass
        readings[name] = replace(reading, maps=_plain(reading.maps), arrays=_plain(reading.arrays))

    with ExitStack() as stack:
        for name, layer in attention_layers(model, patterns).items():
            stack.enter_context(layer.register_forward_pre_hook(partial(record, name)))
        yield readings


def _plain(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().float().cpu() for name, tensor in tensors.items()}
