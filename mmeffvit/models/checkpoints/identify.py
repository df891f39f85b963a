"""Recognize the head, the family and the variant of weights by their keys and shapes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .rename import recognize, rename


@dataclass(frozen=True)
class Head:
    """Keys by which a head is recognized."""

    name: str  # first part of the name of its configs
    marker: str  # pattern that only keys of this head match
    per_class: str  # pattern of the tensors that depend on the number of classes
    counted: str  # one of these tensors, with ``anchors * (classes + others)`` rows
    anchors: int = 1
    others: int = 0  # rows of an anchor that are no class


SEGMENTS = dict(
    per_class=r'^(decode|auxiliary)_head\.conv_seg\.', counted='decode_head.conv_seg.bias'
)
HEADS = (
    Head('ssdlite', r'^bbox_head\.predictors\.', r'^bbox_head\.predictors\.\d\.\d\.(weight|bias)$',
         'bbox_head.predictors.5.0.bias', anchors=4, others=5),
    Head('retinanet', r'^bbox_head\.retina_cls\.', r'^bbox_head\.retina_cls\.',
         'bbox_head.retina_cls.bias', anchors=9),
    Head('maskrcnn', r'^roi_head\.mask_head\.',
         r'^roi_head\.(bbox_head\.fc_(cls|reg)|mask_head\.conv_logits)\.',
         'roi_head.mask_head.conv_logits.bias'),
    Head('pspnet', r'^decode_head\.pools\.', **SEGMENTS),
    Head('deeplabv3', r'^decode_head\.image_pool\.', **SEGMENTS),
    Head('semfpn', r'^decode_head\.scale_heads\.', **SEGMENTS),
    Head('classifier', r'^head\.classifier\.', r'^head\.(classifier|distilled)\.fc\.',
         'head.classifier.fc.bias'),
)  # fmt: skip
CLASSIFIER = HEADS[-1]
# suffixes of configs by the number of classes
DATASETS = {80: '', 1000: '', 150: '_ade20k', 21: '_voc12'}
COUNTERS = r'\.num_batches_tracked$'  # some releases lack them: no effect at a fixed momentum
MAY_LACK = rf'{COUNTERS}|^output_norms\.'  # tensors of a backbone that releases may lack


def families() -> Mapping[str, type[nn.Module]]:
    """All families; each declares its variants and the layouts of its releases."""
    from mmeffvit import (
        registries as registry,  # it imports the backbones, which import this package
    )

    return registry.families()


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

    Returns:
        The first one that fits, else the one with the fewest misfits; None for other weights.
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
            fitted = state | module.adapt_weights(state)
            both = (key for key in state if key in target)
            reshaped = [key for key in both if not same_size(fitted[key], target[key])]
            found = Variant(family.__name__, arch, tuple(absent), tuple(reshaped))
            if best is None or len(found.misfits) < len(best.misfits):
                best = found
            if not found.misfits:
                return found
    return best


def same_size(tensor: Tensor, other: Tensor) -> bool:
    """Whether the shapes agree except for ones, as of a linear layer and a 1x1 convolution."""
    dense, other_dense = ([side for side in t.shape if side != 1] for t in (tensor, other))
    return dense == other_dense


def head_of(weights: Mapping[str, Tensor]) -> Head | None:
    """The head of a model by our keys, if it is one of released models."""
    return next((h for h in HEADS if any(re.search(h.marker, key) for key in weights)), None)


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
