"""Scores of heads and hidden units, of which the lowest are removed."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from mmeffvit.errors import UserError
from mmeffvit.models.layers.head_projections import Units
from mmeffvit.models.mobile_attention.attention import MobileAttention
from mmeffvit.utils.messages import progress

# one score per unit, by layer
Scores = dict[str, Tensor]


def random_scores(layers: Mapping[str, Units], seed: int) -> Scores:
    """Random scores, as a baseline."""
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.rand(layer.count, generator=generator) for name, layer in layers.items()}


def uvc_scores(layers: Mapping[str, Units]) -> Scores:
    """UVC's score: the squared norm of each unit's columns of the projection behind it.

    In training, UVC (arXiv:2203.08243) also learns the number of units to remove from each layer.
    """
    return {
        name: layer.columns().square().flatten(1).sum(dim=1).cpu() for name, layer in layers.items()
    }


def competition_scores(
    model: nn.Module, layers: Mapping[str, Units], batches: Iterable[Any]
) -> Scores:
    """The token mean of O' of each head (appendix A), averaged over the images of a dataset.

    The model is in eval mode, the batches come from a test data loader.

    Raises:
        UserError: If the heads of a layer do not compete, or a layer did not run.
    """
    for name, layer in layers.items():
        if not (isinstance(layer.mixer, MobileAttention) and layer.mixer.competition):
            raise UserError(f'the heads of {name} do not compete: choose --method random or uvc')
    found: dict[str, list[Tensor]] = {name: [] for name in layers}
    with ExitStack() as stack:
        for name, layer in layers.items():
            hook = partial(record, add=found[name].append)
            stack.enter_context(layer.mixer.register_forward_pre_hook(hook))
        for batch in progress(batches, 'scores'):
            with torch.no_grad():
                model.test_step(batch)
    for name, scores in found.items():
        if not scores:
            raise UserError(f'{name} did not run on the test data: its heads have no scores')
    return {name: torch.cat(scores).mean(dim=0) for name, scores in found.items()}


def record(
    layer: MobileAttention, inputs: tuple[Tensor, ...], add: Callable[[Tensor], None]
) -> None:
    add(layer.head_scores(inputs).cpu().double())


def best_units(scores: Tensor, keep: float) -> list[int]:
    """The units to keep, in their order: at least one, and the first ones among equals."""
    number = max(1, round(keep * len(scores)))
    order = scores.argsort(descending=True, stable=True)
    return sorted(order[:number].tolist())
