"""Recognize the family and the variant of weights, and the model of a checkpoint."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from mmeffvit.errors import CheckpointError
from mmeffvit.models import families
from mmeffvit.models.checkpoints.heads import head_of
from mmeffvit.models.checkpoints.load import MAY_LACK, MisfitError, same_size
from mmeffvit.models.checkpoints.rename import recognize, rename

# suffixes of configs by the number of classes
DATASETS = {80: '', 1000: '', 150: '_ade20k', 21: '_voc12'}


@dataclass(frozen=True)
class Variant:
    """A variant of a family, compared with the weights of a backbone."""

    family: str  # the name of the class
    arch: str
    absent: tuple[str, ...]  # keys that either the weights or the variant lack
    reshaped: tuple[str, ...]  # keys whose tensors have another shape

    @property
    def misfits(self) -> tuple[str, ...]:
        return self.absent + self.reshaped


def nearest_variant(tensors: Mapping[str, Tensor]) -> Variant | None:
    """The variant of a family most similar to a backbone, in any layout, without prefixes.

    It is the first one that fits, else the one with the fewest misfits; None for other weights.
    """
    best: Variant | None = None
    for family in families().values():
        layout = recognize(tensors, family.layouts)
        if layout is None:
            continue
        renamed = rename(tensors, layout.table)[0]
        state = {
            new: torch.empty(tensors[old].shape, device='meta')  # quantized ones cannot be moved
            for old, new in renamed.items()
        }
        for arch in family.variants:
            with torch.device('meta'):
                module = family(arch)
            target = module.state_dict()
            absent = [key for key in target if key not in state and not re.search(MAY_LACK, key)]
            absent += [key for key in state if key not in target]
            fitted = state | module.adapt_weights(state, None)
            both = (key for key in state if key in target)
            reshaped = [key for key in both if not same_size(fitted[key], target[key])]
            found = Variant(family.__name__, arch, tuple(absent), tuple(reshaped))
            if best is None or len(found.misfits) < len(best.misfits):
                best = found
            if not found.misfits:
                return found
    return best


def describe(weights: Mapping[str, Tensor]) -> str:
    """The name of the config whose model has these weights, judging by our keys and shapes."""
    head = head_of(weights)
    found = [head.name if head else 'a model without a head of a release']
    inside = {key: value for key, value in weights.items() if key.startswith('backbone.')}
    variant = nearest_variant({k.removeprefix('backbone.'): v for k, v in inside.items()})
    if variant is not None:
        # missing and unexpected keys may come from damage, other shapes do not
        found.append(f'{variant.family.lower()}_{"custom" if variant.reshaped else variant.arch}')
    if head is None or head.counted not in weights:
        return '_'.join(found)
    classes = len(weights[head.counted]) // head.anchors - head.others
    return '_'.join(found) + DATASETS.get(classes, f' with {classes} classes')


@contextmanager
def naming() -> Iterator[None]:
    """Name the model of a checkpoint that does not fit another one, in the error."""
    try:
        yield
    except MisfitError as error:
        if error.checkpoint.head is None:
            raise
        name = describe(error.checkpoint.weights)
        raise CheckpointError(error.text(f' is {name} in the {error.layout} layout and')) from error
