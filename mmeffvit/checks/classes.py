"""The heads that tell classes apart, and how many the data has."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from torch import nn

from mmeffvit.utils.text import listed

HEADS = re.compile(
    r'(^|\.)(bbox|mask|decode|auxiliary|panoptic|query)_head(\.\d+)?$'  # those that know classes
)


def class_counts(model: nn.Module) -> dict[str, int]:
    """The number of classes of every head that tells them apart, by its name."""
    counts = {}
    for name, module in model.named_modules():
        count = getattr(module, 'num_classes', None)
        if HEADS.search(name) and isinstance(count, int) and not _knows_no_class(module):
            counts[name] = count
    return counts


def _knows_no_class(head: nn.Module) -> bool:
    """Whether its number of classes is not that of the data: proposals, edges, depths."""
    kind = type(head).__name__
    other = 'RPN' in kind or kind in ('STDCHead', 'VPDDepthHead')
    return other or bool(getattr(head, 'class_agnostic', False))


def wrong_classes(model: nn.Module, known: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Say which heads have another number of classes than the data, each for one split.

    Args:
        model: With the heads.
        known: By split, what its data set says of itself, ``classes`` among it.
    """
    for name, count in class_counts(model).items():
        for split, meta in known.items():
            classes = meta['classes']
            # of a panoptic data set, heads of boxes know the things alone
            if count in (len(classes), len(meta.get('thing_classes') or classes)):
                continue
            yield (
                f'{name} ({type(model.get_submodule(name)).__name__}) has num_classes={count}, but '
                f'the {split} data has {len(classes)} classes: {listed(classes, 6)}. Set '
                f'model.{name}.num_classes={len(classes)}, or metainfo=dict(classes=...) of the '
                'data set'
            )
            break
