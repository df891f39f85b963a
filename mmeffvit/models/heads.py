"""The heads of a model that predict classes, and how many."""

import re

from torch import nn

HEADS = re.compile(  # heads that predict classes
    r'(^|\.)(bbox|mask|decode|auxiliary|panoptic(_fusion)?|query)_head(\.\d+)?$'
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
