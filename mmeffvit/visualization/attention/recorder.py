"""Recording attention maps of a forward pass with temporary hooks."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from mmeffvit.layers.attention.reading import Reading
from mmeffvit.utils.modules import outermost, select

from .grid import Canvas


def attention_layers(model: nn.Module, patterns: Sequence[str] = ()) -> dict[str, nn.Module]:
    """The attention layers of ``model`` by name, in the order of its modules.

    They are the outermost modules with a method ``read_attention``, see
    :mod:`mmeffvit.layers.attention.reading`.

    Args:
        model: A backbone, or any model around one.
        patterns: Select layers, see :func:`mmeffvit.utils.modules.select`; all if empty.

    Raises:
        ValueError: If the model has no attention layer of ours, or a pattern matches none.
    """
    layers = {name: m for name, m in model.named_modules() if hasattr(m, 'read_attention')}
    layers = outermost(layers)
    if not layers:
        raise ValueError(
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
        ValueError: If no layer matches, or a layer is in train mode or gets several images.
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
        raise ValueError(f'{name} is in train mode, where recording has side effects; call eval()')
    if inputs[0].shape[0] != 1:
        raise ValueError(f'the batch has {inputs[0].shape[0]} images; give one at a time')
    reading = layer.read_attention(inputs, None if canvas.query is None else canvas.query_index)
    readings.pop(name, None)  # for the order of this pass
    readings[name] = replace(reading, maps=_plain(reading.maps), arrays=_plain(reading.arrays))


def _plain(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().float().cpu() for name, tensor in tensors.items()}
