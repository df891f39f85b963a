"""The number of classes of every head, compared with the other heads and the data."""

from collections.abc import Iterator, Mapping

from mmengine.config import Config

from mmeffvit.checks.classes import class_counts, wrong_classes
from mmeffvit.config.datasets import class_of, datasets_of, settings_of
from mmeffvit.utils.text import listed

from .findings import Finding, fault, passed, unchecked
from .step import Step

SPLITS = ('train', 'val', 'test')


def compare_classes(step: Step, config: Config) -> Iterator[Finding]:
    """Compare the heads with the classes in the config; no annotation file is read."""
    heads = class_counts(step.model)
    if not heads:
        yield unchecked('classes: no head has a number of classes')
        return
    known = {}
    for split in SPLITS:
        for dataset in datasets_of(config, split):
            yield from obsolete_keys(dataset, split)
            cls = class_of(dataset, config.default_scope)
            meta = {**(getattr(cls, 'METAINFO', None) or {}), **(dataset.get('metainfo') or {})}
            if meta.get('classes') and not isinstance(meta['classes'], str):  # not of a file
                known.setdefault(split, meta)
    faults = list(wrong_classes(step.model, known) if known else differing_heads(step, heads))
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


def obsolete_keys(dataset: Mapping, split: str) -> Iterator[Finding]:
    if 'CLASSES' in (dataset.get('metainfo') or {}):
        yield fault(
            f'{split} data: metainfo has CLASSES, which mmdet and mmseg no longer read; write '
            'metainfo=dict(classes=...)'
        )


def differing_heads(step: Step, heads: Mapping[str, int]) -> Iterator[str]:
    """Heads with different numbers of classes, if the data does not tell which is right."""
    if len(set(heads.values())) > 1:
        counts = listed(f'{step.describe(name)} {count}' for name, count in heads.items())
        yield (
            f'the heads differ in num_classes: {counts}. Set all to the number of classes of the '
            'data'
        )
