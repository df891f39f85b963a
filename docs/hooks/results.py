"""The tables of "Results": every config by head, those with published numbers first."""

from collections.abc import Iterable, Mapping
from itertools import groupby

from mmeffvit.zoo import Model, read_models
from mmeffvit.zoo.metafile import OURS

from .tables import DOCS, billions, config_link, millions, numbers, table

PAGE = DOCS / 'results.md'
HEADS = (
    'Mask R-CNN', 'RetinaNet', 'SSDLite', 'Deformable DETR', 'RTMDet', 'Light detector', 'PSPNet',
    'DeepLabv3', 'Semantic FPN', "SegFormer's decoder", 'Classifier',
)  # fmt: skip
METRICS = ('box AP', 'mask AP', 'mIoU', 'Top 1 Accuracy')
SHORT = {'Top 1 Accuracy': 'top-1'}


def tables() -> str:
    configs = [model for model in read_models().values() if model.config]
    configs.sort(key=lambda model: HEADS.index(model.architecture[0]))
    heads = groupby(configs, key=lambda model: model.architecture[0])
    return ''.join(section(head, list(models)) for head, models in heads) + '\n'


def section(head: str, models: list[Model]) -> str:
    """A table with a column for each metric, and one for our values if there are any."""
    metrics = [
        name for name in METRICS if any(name in r.metrics for m in models for r in m.results)
    ]
    if not metrics:
        metrics = ['box AP' if 'detection' in models[0].tasks else 'mIoU']
    with_ours = any(OURS in model.metrics_by_source() for model in models)
    heading = ['config', *(f'{SHORT.get(name, name)}:' for name in metrics), 'published in']
    heading += ['ours'] * with_ours + ['parameters:', 'MACs:', 'schedule']
    published_first = sorted(models, key=lambda model: (not model.published()[0], model.name))
    cells = (row(model, metrics, with_ours) for model in published_first)
    return f'\n## {head}\n\n{table(heading, cells)}'


def row(model: Model, metrics: Iterable[str], with_ours: bool) -> list[str]:
    source, values = model.published()
    ours = [numbers(model.metrics_by_source().get(OURS, {}))] if with_ours else []
    return [
        config_link(model, PAGE) + needs(model),
        *(f'{values[name]}' if name in values else '' for name in metrics),
        source,
        *ours,
        millions(model.parameters),
        billions(model.macs),
        schedule(model.metadata),
    ]


def needs(model: Model) -> str:
    package = model.metadata.get('Requires')
    return f' (needs {package})' if package else ''


def schedule(metadata: Mapping[str, int | str]) -> str:
    if 'Epochs' in metadata:
        length = f'{metadata["Epochs"]} epochs'
    else:
        length = f'{metadata["Iterations"] // 1000}K iterations'
    return f'{length}, {metadata["Training Data"]}'
