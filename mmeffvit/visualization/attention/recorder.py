"""Record the attention maps of a forward pass: hooks while it lasts, nothing before or after."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial

import torch
from torch import Tensor, nn

from mmeffvit.layers.attention.reading import Reading

from .grid import Canvas


def attention_layers(model: nn.Module, patterns: Sequence[str] = ()) -> dict[str, nn.Module]:
    """The attention layers of ``model`` by name, in the order they are built.

    They are the modules with a method ``read_attention``, see :mod:`mmeffvit.layers.attention`.

    Args:
        model: A backbone, or any model around one.
        patterns: Keep the layers whose name, or a dotted part of it, matches one; `*` and `?`
            stand for anything. All without a pattern.

    Raises:
        ValueError: If the model has no attention layer of ours, or a pattern matches none.
    """
    layers = {name: m for name, m in model.named_modules() if hasattr(m, 'read_attention')}
    if not layers:
        raise ValueError(
            f'{type(model).__name__} has no attention layer: no module of it has read_attention'
        )
    for pattern in patterns:
        if not any(_matches(name, pattern) for name in layers):
            raise ValueError(f'no layer is called {pattern!r}; choose of {", ".join(layers)}')
    if not patterns:
        return layers
    return {n: m for n, m in layers.items() if any(_matches(n, pattern) for pattern in patterns)}


def _matches(name: str, pattern: str) -> bool:
    parts = name.split('.')
    ends = range(1, len(parts) + 1)
    return any(fnmatchcase('.'.join(parts[i:j]), pattern) for j in ends for i in range(j))


@contextmanager
def record_attention(
    model: nn.Module, canvas: Canvas, patterns: Sequence[str] = ()
) -> Iterator[dict[str, Reading]]:
    """Read the maps of every forward pass inside the context, of one image at a time.

    A map is computed again from the input of its layer: the layers keep none, and the hooks that
    hand the inputs over are gone when the context ends, also by an error.

    Args:
        model: A backbone, or any model around one, in eval mode.
        canvas: Size of the input, and the query point.
        patterns: Layers to read, see :func:`attention_layers`.

    Yields:
        The readings by name of the layer, in the order they ran, of the last pass.

    Raises:
        ValueError: If there is no such layer, or one runs in train mode or on several images.
    """
    readings: dict[str, Reading] = {}
    with ExitStack() as stack:
        for name, layer in attention_layers(model, patterns).items():
            hook = partial(_record, name=name, canvas=canvas, readings=readings)
            handle = layer.register_forward_pre_hook(hook)
            stack.callback(handle.remove)
        yield readings


@torch.no_grad()
def _record(
    layer: nn.Module,
    inputs: tuple[Tensor, ...],
    *,
    name: str,
    canvas: Canvas,
    readings: dict[str, Reading],
) -> None:
    if layer.training:
        raise ValueError(f'{name} is in train mode, where reading would change it; call eval()')
    if inputs[0].shape[0] != 1:
        raise ValueError(f'the batch has {inputs[0].shape[0]} images; give one at a time')
    reading = layer.read_attention(inputs, None if canvas.query is None else canvas.query_index)
    readings.pop(name, None)  # the order is that of this pass
    readings[name] = replace(reading, maps=_plain(reading.maps), arrays=_plain(reading.arrays))


def _plain(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().float().cpu() for name, tensor in tensors.items()}
