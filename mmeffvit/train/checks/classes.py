"""The number of classes of every head, compared with the other heads and the data."""

from collections.abc import Iterator, Mapping
from typing import Any

from mmengine.config import Config
from torch import nn

from mmeffvit.config.datasets import SPLITS, class_of, datasets_of, settings_of
from mmeffvit.errors import UserError
from mmeffvit.models.heads import class_counts
from mmeffvit.utils.text import counted, listed

from .findings import Finding, fault, passed, unchecked
from .step import Step


def wrong_classes(
    model: nn.Module, known: Mapping[str, Mapping[str, Any]], place: str = 'model'
) -> Iterator[str]:
    """Report heads whose number of classes differs from the data, each for one split.

    ``known`` is the ``metainfo`` of the dataset, with ``classes``, by split; ``place`` the key of
    the model in the config.
    """
    for name, count in class_counts(model).items():
        for split, meta in known.items():
            classes = meta['classes']
            # for panoptic datasets, box heads predict the thing classes only
            if count in (len(classes), len(meta.get('thing_classes') or classes)):
                continue
            head = model.get_submodule(name)
            keys = settings_of_classes(head, f'{place}.{name}', meta)
            yield (
                f'{name} ({type(head).__name__}) has num_classes={count}, but the {split} data has '
                f'{counted(len(classes), "class")}: {listed(classes, 6)}. Set {keys}, or '
                'metainfo=dict(classes=...) of the dataset'
            )
            break


def settings_of_classes(head: nn.Module, place: str, meta: Mapping[str, Any]) -> str:
    """The arguments of a head, at a key of the config, that give it the classes of the data."""
    count = len(meta['classes'])
    if hasattr(head, 'num_things_classes'):
        things = len(meta.get('thing_classes') or meta['classes'])
        return (
            f'{place}.num_things_classes={things} and num_stuff_classes={count - things} '
            '(and a class_weight of its loss_cls to as many, with one for no object)'
        )
    inner = '.kernel_generate_head' if hasattr(head, 'kernel_generate_head') else ''
    return f'{place}{inner}.num_classes={count}'


def check_heads(model: nn.Module, dataset: Any, split: str) -> None:
    """Compare the heads with the classes of a dataset, if it has any.

    Raises:
        UserError: If a head does not match.
    """
    meta = getattr(dataset, 'metainfo', None) or {}
    known = {} if meta.get('classes') is None else {split: meta}
    for text in wrong_classes(model, known):
        raise UserError(text)


def compare_classes(step: Step, config: Config) -> Iterator[Finding]:
    """Compare the heads with the classes in the config; no annotation file is read."""
    heads = class_counts(step.model)
    if not heads:
        yield unchecked('classes: no head has a number of classes')
        return
    known = {}
    for split in SPLITS:
        for dataset in datasets_of(config, split):
            own = dataset.get('metainfo') or {}
            if 'CLASSES' in own:
                yield fault(
                    f'{split} data: metainfo has CLASSES, which mmdet and mmseg no longer read; '
                    'write metainfo=dict(classes=...)'
                )
            cls = class_of(dataset, config.default_scope)
            meta = {**(getattr(cls, 'METAINFO', None) or {}), **own}
            if meta.get('classes') and not isinstance(meta['classes'], str):  # not of a file
                known.setdefault(split, meta)
    faults = list(
        wrong_classes(step.model, known, step.place) if known else differing_heads(step, heads)
    )
    yield from map(fault, faults)
    if not known:
        yield unchecked(
            'classes of the data: neither metainfo=dict(classes=...) nor the dataset class gives '
            'them'
        )
    if not faults:
        where = ' and in the data' if known else ''
        yield passed(f'{listed(sorted(set(heads.values())))} classes in all heads{where}')
    yield from excessive_topk(config, min(heads.values()))


def excessive_topk(config: Config, num_classes: int) -> Iterator[Finding]:
    """Report accuracies of a classifier over more classes than it has: they fail when tested."""
    for split in SPLITS[1:]:
        for metric in settings_of(config.get(f'{split}_evaluator'), 'Accuracy'):
            topk = metric.get('topk') or 1
            largest = max(topk) if isinstance(topk, list | tuple) else topk
            if largest > num_classes:
                yield fault(
                    f'{split}_evaluator.topk={topk} needs {largest} classes or more, but the model '
                    f'has {num_classes}. Set {split}_evaluator.topk=1'
                )


def differing_heads(step: Step, heads: Mapping[str, int]) -> Iterator[str]:
    """Heads with different numbers of classes, if the data does not tell which is right."""
    if len(set(heads.values())) > 1:
        counts = listed(f'{step.describe(name)} {count}' for name, count in heads.items())
        yield (
            f'the heads differ in num_classes: {counts}. Set all to the number of classes of the '
            'data'
        )
