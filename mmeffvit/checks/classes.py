"""The number of classes of every head, compared with the data."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from torch import nn

from mmeffvit.utils.text import counted, listed

HEADS = re.compile(
    r'(^|\.)(bbox|mask|decode|auxiliary|panoptic|query)_head(\.\d+)?$'  # heads that predict classes
)
CLASSIFIER = 'head'  # of a classifier: it declares no stride, since it averages the map


def class_counts(model: nn.Module) -> dict[str, int]:
    """The number of classes of every head that predicts classes, by its name."""
    counts = {}
    for name, module in model.named_modules():
        count = getattr(module, 'num_classes', None)
        is_head = HEADS.search(name) or name == CLASSIFIER
        if is_head and isinstance(count, int) and not _is_class_agnostic(module):
            counts[name] = count
    return counts


def _is_class_agnostic(head: nn.Module) -> bool:
    """Whether its number of classes is unrelated to the data: proposals, edges, depths."""
    kind = type(head).__name__
    other = 'RPN' in kind or kind in ('STDCHead', 'VPDDepthHead')
    return other or bool(getattr(head, 'class_agnostic', False))


def wrong_classes(model: nn.Module, known: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Report heads whose number of classes differs from the data, each for one split.

    Args:
        model: The model with the heads.
        known: The ``metainfo`` of the dataset, with ``classes``, by split.
    """
    for name, count in class_counts(model).items():
        for split, meta in known.items():
            classes = meta['classes']
            # for panoptic datasets, box heads predict the thing classes only
            if count in (len(classes), len(meta.get('thing_classes') or classes)):
                continue
            yield (
                f'{name} ({type(model.get_submodule(name)).__name__}) has num_classes={count}, but '
                f'the {split} data has {counted(len(classes), "class")}: {listed(classes, 6)}. Set '
                f'model.{name}.num_classes={len(classes)}, or metainfo=dict(classes=...) of the '
                'dataset'
            )
            break
