"""The number of classes of every head against the others and against the data."""

from collections.abc import Iterator, Mapping
from typing import Any

from mmengine.config import Config

from mmeffvit.checks.run import class_of, datasets_in

from .findings import Finding, fault, fine, listed, unchecked
from .step import Step, class_counts

SPLITS = ('train', 'val', 'test')


def check_classes(step: Step, config: Config) -> Iterator[Finding]:
    """Compare the heads with what the data loaders name; no annotation file is read."""
    heads = class_counts(step.model)
    if not heads:
        yield unchecked('classes: no head counts any')
        return
    known = {}
    for split in SPLITS:
        for dataset in datasets_in((config.get(f'{split}_dataloader') or {}).get('dataset')):
            yield from misspelt(dataset, split)
            meta = metainfo_of(dataset, config.default_scope)
            if is_known(meta):
                known.setdefault(split, meta)
    faults = list(against_data(step, heads, known) if known else between_heads(step, heads))
    yield from faults
    if not known:
        yield unchecked(
            'classes of the data: neither metainfo=dict(classes=...) nor the data set class names '
            'them'
        )
    if not faults:
        where = ' and in the data' if known else ''
        yield fine(f'{listed(sorted({n for _, n in heads}))} classes in all heads{where}')


def is_known(meta: Mapping) -> bool:
    classes = meta.get('classes')  # text is the name of a file with the classes
    return bool(classes) and not isinstance(classes, str)


def metainfo_of(dataset: Mapping, scope: str) -> dict[str, Any]:
    """What a data set says of itself before it is read: its class, then its config."""
    cls = class_of(dataset, scope)
    return {**(getattr(cls, 'METAINFO', None) or {}), **(dataset.get('metainfo') or {})}


def misspelt(dataset: Mapping, split: str) -> Iterator[Finding]:
    if 'CLASSES' in (dataset.get('metainfo') or {}):
        yield fault(
            f'{split} data: metainfo has CLASSES, which neither host reads any more; write '
            'metainfo=dict(classes=...)'
        )


def against_data(step: Step, heads: list, known: Mapping[str, Mapping]) -> Iterator[Finding]:
    """Heads with another number of classes than the data, each with the first split to differ."""
    for name, count in heads:
        for split, meta in known.items():
            classes = meta['classes']
            # of a panoptic data set, heads of boxes know the things alone
            if count in (len(classes), len(meta.get('thing_classes') or classes)):
                continue
            yield fault(
                f'{step.called(name)} has num_classes={count}, but the {split} data has '
                f'{len(classes)} classes: {listed(classes, 6)}. Set model.{name}.num_classes='
                f'{len(classes)}, or metainfo=dict(classes=...) of the data set'
            )
            break


def between_heads(step: Step, heads: list) -> Iterator[Finding]:
    """Heads that differ, when nothing says which is right."""
    if len({count for _, count in heads}) > 1:
        counts = listed(f'{step.called(name)} {count}' for name, count in heads)
        yield fault(
            f'the heads differ in num_classes: {counts}. Set all to the number of classes of the '
            'data'
        )
