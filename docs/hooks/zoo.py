"""The tables of the model zoo: licenses by family, every config by head, released backbones."""

from collections import Counter
from collections.abc import Iterable
from itertools import compress, groupby

from mmeffvit.zoo import Model, read_models
from mmeffvit.zoo.metafile import OURS

from .papers import PAPERS
from .tables import DOCS, config_link, numbers, table, web_address

PAGE = DOCS / 'zoo.md'
HEADS = (
    'Mask R-CNN', 'RetinaNet', 'SSDLite', 'Deformable DETR', 'RTMDet', 'GFLite', 'PSPNet',
    'DeepLabv3', 'Semantic FPN', "SegFormer's decoder", 'Classifier',
)  # fmt: skip
METRICS = ('box AP', 'mask AP', 'mIoU', 'Top 1 Accuracy')
SHORT = {'Top 1 Accuracy': 'top-1'}


def tables() -> str:
    models = list(read_models().values())
    configs = sorted(
        (model for model in models if model.config),
        key=lambda model: HEADS.index(model.architecture[0]),
    )
    heads = groupby(configs, key=lambda model: model.architecture[0])
    return ''.join(
        [
            licenses(models),
            *(section(head, list(found)) for head, found in heads),
            section('Backbones', [model for model in models if model.config is None]),
            '\n',
        ]
    )


def licenses(models: Iterable[Model]) -> str:
    """A row for each license of released weights, with the files by the data of their training."""
    found: dict[tuple[str, str, str], dict[str, str]] = {}
    for model in models:
        if model.weights:
            key = (model.family, model.license['Name'], model.license['URL'])
            found.setdefault(key, {})[model.weights] = model.dataset.removesuffix('-1k')
    rows = (
        (family, f'[{name}]({url})', ', '.join(f'{n} {data}' for data, n in Counter(files).items()))
        for (family, name, url), files in ((key, found[key].values()) for key in found)
    )
    return '\n## Licenses of the weights\n\n' + table(('family', 'license', 'files'), rows)


def section(title: str, models: list[Model]) -> str:
    """A table with a column for each metric, and one for our values if there are any."""
    metrics = [
        name for name in METRICS if any(name in r.metrics for m in models for r in m.results)
    ]
    if not metrics:
        metrics = ['box AP' if 'detection' in models[0].tasks else 'mIoU']
    with_ours = any(OURS in model.metrics_by_source() for model in models)
    heading = ['name', *(f'{SHORT.get(name, name)}:' for name in metrics)]
    heading += ['ours'] * with_ours + ['parameters, M:', 'MACs, G:', 'weights']
    with_number = [model for model in models if model.metrics_by_source()]
    others = [model for model in models if model not in with_number]
    cells = [row(model, metrics, with_ours) for model in with_number]
    filled = [any(column) for column in zip(*cells, strict=True)]
    heading, *cells = (list(compress(line, filled)) for line in (heading, *cells))
    text = f'\n## {title}\n'
    text += '\n' + table(heading, cells) if cells else ''
    return text + unpublished(others) if others else text


def unpublished(models: Iterable[Model]) -> str:
    """Configs without a number, with their size."""
    lines = [
        f'- {config_link(model, PAGE)}{needs(model)}: '
        f'{model.parameters / 1e6:.2f}, {model.macs / 1e9:.2f}\n'
        for model in models
    ]
    return '\nNot published; parameters, MACs:\n\n' + ''.join(lines)


def row(model: Model, metrics: Iterable[str], with_ours: bool) -> list[str]:
    source, values = model.published(of_weights=model.weights is not None)
    ours = [numbers(model.metrics_by_source().get(OURS, {}))] if with_ours else []
    return [
        config_link(model, PAGE) + needs(model) if model.config else model.name,
        *(linked(values[name], source) if name in values else '' for name in metrics),
        *ours,
        f'{model.parameters / 1e6:.2f}',
        f'{model.macs / 1e9:.2f}',
        f'[{model.weights_layout}]({web_address(model.weights)})' if model.weights else '',
    ]


def linked(value: float, source: str) -> str:
    """A number of a paper with a link to the table; one of the authors' model zoo as it is."""
    for prefix, (title, _) in PAPERS.items():
        if source.startswith(prefix) and source != prefix:
            table = f'{title}{source.removeprefix(prefix)}'
            return f'[{value}](papers.md#{table.lower().replace(" ", "-")})'
    return f'{value}'


def needs(model: Model) -> str:
    package = model.metadata.get('Requires')
    return f' (needs {package})' if package else ''
